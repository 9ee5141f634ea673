"""A sealed file that was written anew: its tensors are compared by name instead of by place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Location, Severity
from everybit.core.rule import rule
from everybit.files.elements import expands_too_far, tensor_digest
from everybit.files.tensor import FileFormat
from everybit.files.zips.integrity import crc_damage, crc_status
from everybit.files.zips.members import member_crc
from everybit.files.zips.records import STORED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.finding import Finding
    from everybit.files.seals.localize import Differences
    from everybit.files.seals.manifest import SealedFile
    from everybit.files.source import ByteSource
    from everybit.files.structure import Structure
    from everybit.files.tensor import FileTensor

#: Formats that tell by themselves where they end, so that a whole one was not cut.
CONTAINERS: Final = frozenset(
    {
        FileFormat.DISTCP,
        FileFormat.NPY,
        FileFormat.NPZ,
        FileFormat.SAFETENSORS,
        FileFormat.TORCH_LEGACY,
        FileFormat.TORCH_TAR,
        FileFormat.TORCH_ZIP,
    }
)


def lies_elsewhere(
    source: ByteSource, sealed: SealedFile, structure: Structure, differences: Differences
) -> bool:
    """Return whether the file is another whole container, laid out otherwise."""
    if structure.damages or structure.format not in CONTAINERS or not sealed.tensors:
        return False
    if source.size == sealed.size_bytes and not differences.ranges:
        # Every change is known to the byte: a header damaged into another that reads.
        return False
    if source.size != sealed.size_bytes:
        return True
    found, recorded = _layout(structure.tensors), _layout(sealed.tensors)
    # Equal places under other names: what named them is elsewhere (`.metadata`), or differs too.
    return found != recorded and sorted(found.values()) != sorted(recorded.values())


def is_consistent(
    source: ByteSource, sealed: SealedFile, structure: Structure, differences: Differences
) -> bool:
    """Return whether a file of unchanged layout was written anew rather than damaged.

    It was where its structure holds, it differs in more than one place of a few bytes, and its
    own checksums hold, if it has any.
    """
    if structure.damages or structure.format not in CONTAINERS or not sealed.tensors:
        return False
    if not structure.has_checksums:
        return not differences.right
    if not differences.ranges and differences.num_leaves < 2:
        return False
    return all(
        crc_status(member, member_crc(source, member)) is None
        for member in structure.members
        if member.usable and member.method == STORED
    )


def _layout(tensors: Sequence[FileTensor]) -> dict[str, tuple[Any, ...]]:
    """Return all that says how stored bytes become values: equal bytes are then equal values."""
    return {
        t.name: (
            t.dtype,
            t.shape,
            t.byte_ranges,
            # The step along a dimension of one element moves nothing.
            tuple(step for size, step in zip(t.shape, t.stride, strict=True) if size > 1),
            t.big_endian and t.itemsize > 1,
            t.conjugate,
            t.negative,
        )
        for t in tensors
    }


def compare_rewritten(
    source: ByteSource, sealed: SealedFile, structure: Structure, name: str
) -> list[Finding]:
    """Return what is to be said of a file written anew: a note where all its tensors are equal."""
    old = {tensor.name: tensor for tensor in sealed.tensors}
    new = {tensor.name: tensor for tensor in structure.tensors}
    missing = [key for key in old if key not in new]
    added = [key for key in new if key not in old]
    findings: list[Finding] = []
    num_equal = num_unknown = 0
    for key, tensor in new.items():
        before = old.get(key)
        if before is None:
            continue
        same_kind = (tensor.dtype, tensor.shape) == (before.dtype, before.shape)
        if same_kind and (before.tree is None or tensor.unreadable or expands_too_far(tensor)):
            num_unknown += 1
            continue
        found = tensor_digest(source, tensor) if same_kind else None
        if found is not None and found == before.tree:
            num_equal += 1
        else:
            findings.append(_changed(tensor, before, found, name))
    findings += _failed_members(source, structure, name)
    if findings and not missing and not added:
        return findings
    evidence: dict[str, Any] = {
        "expected": str(sealed.tree),
        "size_bytes": source.size,
        "expected_bytes": sealed.size_bytes,
        "num_equal_tensors": num_equal,
    }
    evidence |= {"missing": missing[:16]} if missing else {}
    evidence |= {"added": added[:16]} if added else {}
    evidence |= {"num_unknown_tensors": num_unknown} if num_unknown else {}
    equal = not (missing or added or findings)
    if structure.format is not sealed.format:
        evidence |= {"format": str(structure.format), "expected_format": str(sealed.format)}
    if equal:
        kinds = f" ({structure.format}, sealed as {sealed.format})"
        message = (
            f"{name} was written anew"
            + (kinds if structure.format is not sealed.format else "")
            + f"; all {num_equal} tensors have their sealed digests"
        )
        if num_unknown:
            message = f"{message}, {num_unknown} have none"
    else:
        message = (
            f"{name} holds other tensors than were sealed: {num_equal} equal, "
            f"{len(findings)} changed, {len(missing)} missing, {len(added)} added"
        )
    note = equal and not num_unknown
    findings.append(
        rule("FIL101").finding(
            message,
            where=Location(path=name, byte_range=(0, source.size)),
            evidence=evidence,
            severity=Severity.NOTE if note else None,
            remedy="Seal the file again if it was rewritten on purpose." if note else "",
        )
    )
    return findings


def _changed(tensor: FileTensor, before: FileTensor, found: object, name: str) -> Finding:
    if found is None:
        message = (
            f"{name}: tensor {tensor.name} is {tensor.dtype}{list(tensor.shape)}, "
            f"sealed as {before.dtype}{list(before.shape)}"
        )
    else:
        message = f"{name}: tensor {tensor.name} has other values than were sealed"
    return rule("FIL102").finding(
        message,
        where=Location(
            path=name,
            tensor=tensor.name,
            member=tensor.member,
            byte_ranges=tensor.byte_ranges or None,
            element_ranges=((0, tensor.num_elements),) if tensor.num_elements else None,
        ),
        evidence={
            "expected": str(before.tree),
            **({"found": str(found)} if found is not None else {}),
            "rewritten": "the file was written anew, so the place of the change is not known",
        },
    )


def _failed_members(source: ByteSource, structure: Structure, name: str) -> list[Finding]:
    """A rewritten archive's own checksums: damage since it was rewritten."""
    if not structure.has_checksums:
        return []
    findings = []
    for member in structure.members:
        if member.usable and member.method == STORED:
            computed = member_crc(source, member)
            if crc_status(member, computed) is not None:
                damage = crc_damage(source, structure, member, computed)
                findings.append(damage.finding(name))
    return findings

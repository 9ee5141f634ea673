"""A sealed file against its seal: equal or not, and if not, which tensors and which elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Location
from everybit.core.rule import rule
from everybit.core.tree import LEAF_BYTES, fold_leaves
from everybit.core.verdict import Skipped
from everybit.files.elements import tensor_digest
from everybit.files.outcome import Outcome
from everybit.files.passes import no_progress, read_blake3, read_leaves
from everybit.files.reading import describe_not_a_model, read_structure
from everybit.files.seals.as_written import written_damaged
from everybit.files.seals.localize import Differences, find_differences
from everybit.files.seals.manifest import TakenFrom
from everybit.files.seals.meaning import says_the_same
from everybit.files.seals.replaced import is_another_file
from everybit.files.seals.rewritten import compare_rewritten, is_consistent, lies_elsewhere
from everybit.files.seals.tensor_damage import MAX_RANGES, damaged_tensors
from everybit.files.tensor import FileFormat

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.core.finding import Finding
    from everybit.files.seals.manifest import SealedFile
    from everybit.files.source import ByteSource
    from everybit.files.structure import Structure


#: What a failed download or checkout leaves in the place of a model.
_REPLACED_BY: Final = (FileFormat.LFS_POINTER, FileFormat.HTML, FileFormat.TEXT)


def check_sealed(
    source: ByteSource,
    sealed: SealedFile,
    name: str,
    *,
    strong: bool = False,
    progress: Callable[[int], None] = no_progress,
) -> Outcome:
    """Compare one open file with its entry in the manifest.

    Args:
        source: The file.
        sealed: Its entry.
        name: Its path relative to the target, for findings.
        strong: Compare BLAKE3 as well, against those who may lie.
        progress: Is told the bytes read, as they are.
    """
    outcome = Outcome(num_bytes=source.size)
    # Equal BLAKE3 digests leave nothing to ask; XXH3 leaves then say where others part.
    blake3 = read_blake3(source, progress=progress) if strong else None
    if blake3 is None or blake3 != sealed.blake3:
        done = read_leaves(source, progress=no_progress if strong else progress)
        if done.num_bytes != sealed.size_bytes or done.leaves != sealed.leaves:
            outcome.findings += _explain(source, sealed, name, done.leaves)
        elif blake3 is not None:
            outcome.findings.append(_forged(sealed, name, str(blake3)))
    if sealed.taken_from is TakenFrom.MEMORY:
        told = {finding.where.tensor for finding in outcome.findings}
        outcome.findings += written_damaged(source, sealed, name, told)
    if source.changed():
        # What was read is neither the old file nor the new one.
        why = "it changed while it was read; verify again when nothing writes to it"
        return Outcome(skipped=[Skipped(what=name, why=why)], num_bytes=outcome.num_bytes)
    outcome.count("files against their seal")
    if sealed.tensors:
        outcome.count("tensors against their seal", len(sealed.tensors))
    if strong:
        outcome.count("files by BLAKE3")
    return outcome


def _explain(source: ByteSource, sealed: SealedFile, name: str, leaves: bytes) -> list[Finding]:
    structure = read_structure(source)
    if sealed.tensors and structure.format in _REPLACED_BY:
        return [_replaced(source, sealed, structure, name)]
    differences = find_differences(source, sealed, leaves)
    same = says_the_same(source, sealed, structure, differences, name)
    if same is not None:
        return [same]
    if lies_elsewhere(source, sealed, structure, differences):
        return compare_rewritten(source, sealed, structure, name)
    if source.size < sealed.size_bytes and is_another_file(
        source, sealed, structure, differences, name
    ):
        return [_another(source, sealed, structure, name, leaves)]
    findings: list[Finding] = []
    if source.size < sealed.size_bytes:
        findings.append(_truncated(source, sealed, name))
    held, explained = damaged_tensors(source, sealed, differences, name)
    findings += held
    rest = [span for span in differences.all_ranges() if not explained(span)]
    if source.size > sealed.size_bytes:
        rest.append((sealed.size_bytes, source.size))
    if rest and is_consistent(source, sealed, structure, differences):
        # The bytes around the tensors agree with each other, so somebody wrote the file anew.
        return held or compare_rewritten(source, sealed, structure, name)
    if rest:
        findings.append(_outside(source, sealed, structure, differences, rest, name, leaves))
    return findings


def _replaced(source: ByteSource, sealed: SealedFile, structure: Structure, name: str) -> Finding:
    what, todo = describe_not_a_model(structure.format, source)
    return rule("FIL118").finding(
        f"{name} {what} where a model was sealed",
        where=Location(path=name, byte_range=(0, source.size)),
        evidence={
            "size_bytes": source.size,
            "expected_bytes": sealed.size_bytes,
            "expected": str(sealed.tree),
            "first_bytes": source.read(0, 64).decode("ascii", "backslashreplace"),
        },
        remedy=f"{todo[:1].upper()}{todo[1:]}.",
    )


def _another(
    source: ByteSource, sealed: SealedFile, structure: Structure, name: str, leaves: bytes
) -> Finding:
    size = source.size
    kinds = f" ({structure.format}, sealed as {sealed.format})"
    return rule("FIL101").finding(
        f"{name} is another file than was sealed: {size} bytes instead of {sealed.size_bytes}"
        + (kinds if structure.format is not sealed.format else ""),
        where=Location(path=name, byte_range=(0, size) if size else None),
        evidence={
            "expected": str(sealed.tree),
            "found": str(fold_leaves("bytes", (size,), size, leaves)),
            "size_bytes": size,
            "expected_bytes": sealed.size_bytes,
            "format": str(structure.format),
            "expected_format": str(sealed.format),
        },
    )


def _truncated(source: ByteSource, sealed: SealedFile, name: str) -> Finding:
    size = source.size
    before = [t for t in sealed.tensors if all(end <= size for _, end in t.byte_ranges)]
    readable = [
        t.name
        for t in before
        if t.tree is not None and not t.unreadable and tensor_digest(source, t) == t.tree
    ]
    lost = len(sealed.tensors) - len(before)
    told = f"; {len(readable)} of {len(sealed.tensors)} tensors are whole before the cut"
    return rule("FIL104").finding(
        f"{name} ends after {size} of {sealed.size_bytes} bytes{told if sealed.tensors else ''}",
        where=Location(path=name, byte_range=(size, sealed.size_bytes)),
        evidence={
            "size_bytes": size,
            "expected_bytes": sealed.size_bytes,
            "promised_by": "the manifest",
            "readable": readable,
            "num_lost": lost,
        },
    )


def _outside(
    source: ByteSource,
    sealed: SealedFile,
    structure: Structure,
    differences: Differences,
    rest: list[tuple[int, int]],
    name: str,
    leaves: bytes,
) -> Finding:
    size = source.size
    evidence: dict[str, Any] = {
        "expected": str(sealed.tree),
        "found": str(fold_leaves("bytes", (size,), size, leaves)),
    }
    exact = [
        {"byte": offset, "before": byte, "after": found, "bits": _bits(byte ^ found)}
        for offset, byte in sorted(differences.right.items())
        if any(start <= offset < end for start, end in rest)
        for found in source.read(offset, 1)
    ]
    if exact:
        evidence["bytes"] = exact[:16]
    else:
        evidence["resolution_bytes"] = LEAF_BYTES
    if structure.damages:
        evidence["structure"] = [damage.message for damage in structure.damages[:3]]
    appended = size > sealed.size_bytes and rest == [(sealed.size_bytes, size)]
    holding = {
        member.name
        for member in structure.members
        if any(start >= member.start and end <= member.end for start, end in rest)
    }
    if appended:
        message = f"{name} has {size - sealed.size_bytes} bytes more than were sealed"
    else:
        where = "outside its tensors" if sealed.tensors else "from what was sealed"
        message = f"{name} differs {where}, at byte {rest[0][0]}" + (
            f" and {len(rest) - 1} more places" if len(rest) > 1 else ""
        )
    place: dict[str, Any] = {"member": holding.pop()} if len(holding) == 1 else {}
    if len(rest) == 1:
        place["byte_range"] = rest[0]
    else:
        place["byte_ranges"] = tuple(rest[:MAX_RANGES])
        evidence["num_ranges"] = len(rest)
    return rule("FIL101").finding(message, where=Location(path=name, **place), evidence=evidence)


def _bits(mask: int) -> list[int]:
    return [bit for bit in range(8) if mask >> bit & 1]


def _forged(sealed: SealedFile, name: str, found: str) -> Finding:
    return rule("FIL101").finding(
        f"{name} gives the sealed XXH3 digest and another BLAKE3: its bytes were made to deceive",
        where=Location(path=name, byte_range=(0, sealed.size_bytes)),
        evidence={"expected": str(sealed.blake3), "found": found},
    )

"""One file, as damaged as it may be: its tensors and their states, with or without its seal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from everybit.core.finding import Location
from everybit.core.rule import rule
from everybit.files.checks.checksums import broken_records, check_members
from everybit.files.checks.signs import tell
from everybit.files.checks.unsealed import check_unsealed
from everybit.files.elements import expands_too_far, tensor_digest
from everybit.files.formats.torch_zip import read_remains
from everybit.files.reading import read_structure
from everybit.files.salvage.states import State, Witness, states_of
from everybit.files.tensor import FileFormat
from everybit.files.values.judging import judge
from everybit.files.values.spans import spans_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.core.finding import Finding
    from everybit.files.seals.manifest import SealedFile
    from everybit.files.source import ByteSource
    from everybit.files.structure import Structure
    from everybit.files.tensor import FileTensor


@dataclass(slots=True, kw_only=True)
class Examined:
    """What one file still holds.

    Attributes:
        states: Of its tensors.
        unplaced: Tensors that are known by name only, and why they are lost.
        findings: What is wrong with the file.
    """

    states: list[State] = field(default_factory=list)
    unplaced: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def examine(
    source: ByteSource,
    label: str,
    entry: SealedFile | None,
    progress: Callable[[int], None],
    structure: Structure | None = None,
) -> Examined:
    """Return the state of every tensor that a file holds or held.

    Args:
        source: The file.
        label: Its path relative to the target, for findings.
        entry: Its seal, whose digests outweigh everything else; None without.
        progress: Is told the bytes read, as they are.
        structure: Its structure, where it is known already.

    Raises:
        PathError: The file cannot be read.
    """
    found = Examined()
    structure = structure or read_structure(source)
    if not structure.tensors and structure.damages and structure.format is FileFormat.ZIP:
        found.findings += [damage.finding(label) for damage in structure.damages]
        structure, lost = read_remains(source)
        found.unplaced |= dict.fromkeys(lost, "the archive ends before its storage does")
    if not structure.tensors and not structure.damages and not found.findings:
        found.findings += check_unsealed(source, label, full=False).findings
    proven = _hold_against_seal(source, label, entry, structure, found, progress)
    open_tensors = tuple(t for t in structure.tensors if t.name not in proven)
    if not open_tensors:
        if entry is None and not found.findings:
            found.findings += [damage.finding(label) for damage in structure.damages]
        return found
    spans = spans_of(structure.tensors)
    checksums = check_members(source, structure, spans, full=True, progress=progress)
    failed = checksums.failed_ranges
    judged = judge(source, spans, checksums.scan, failed, broken_records(structure))
    if not found.findings:
        found.findings += tell(structure, checksums, judged, label, source.size)
    found.states += [
        state
        for state in states_of(structure, checksums, judged, source.size)
        if state.tensor.name not in proven
    ]
    for state in found.states:
        found.unplaced.pop(state.tensor.name, None)
    for damage in structure.damages:
        if damage.from_pickle and damage.where.tensor is not None:
            found.unplaced.setdefault(damage.where.tensor, damage.message)
    return found


def _hold_against_seal(
    source: ByteSource,
    label: str,
    entry: SealedFile | None,
    structure: Structure,
    found: Examined,
    progress: Callable[[int], None],
) -> set[str]:
    """Judge the tensors that the seal has digests of; return their names.

    A tensor is looked for where the file says, then where it was when the file was sealed.
    """
    if entry is None:
        return set()
    placed = {tensor.name: tensor for tensor in structure.tensors}
    differing = []
    proven = set()
    for sealed in entry.tensors:
        if sealed.tree is None:
            continue
        proven.add(sealed.name)
        places = [placed.get(sealed.name), sealed]
        tensor = next((t for t in places if t is not None and _gives(source, t, sealed)), None)
        if tensor is None:
            differing.append(sealed)
            why = "its bytes are not those that were sealed"
            found.states.append(State(tensor=sealed, why=why))
        else:
            found.states.append(State(tensor=tensor, witness=Witness.DIGEST))
        progress(sealed.num_bytes)
    if differing:
        first = differing[0]
        more = f" and {len(differing) - 1} more" if len(differing) > 1 else ""
        found.findings.append(
            rule("FIL102").finding(
                f"{label}: tensor {first.name}{more} differ from their seal",
                where=Location(path=label, tensor=first.name),
                evidence={
                    "num_tensors": len(differing),
                    "tensors": [tensor.name for tensor in differing[:64]],
                },
            )
        )
    return proven


def _gives(source: ByteSource, tensor: FileTensor, sealed: FileTensor) -> bool:
    """Return whether the bytes of a tensor give the digest that was sealed."""
    if tensor.unreadable or expands_too_far(tensor):
        return False
    if (tensor.dtype, tensor.shape) != (sealed.dtype, sealed.shape):
        return False
    if any(end > source.size for _, end in tensor.byte_ranges):
        return False
    return tensor_digest(source, tensor) == sealed.tree

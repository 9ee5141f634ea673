"""Which sealed tensors the differing bytes belong to: FIL102, one finding for one damage."""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from everybit.core.change import Change, evidence_of
from everybit.core.finding import Location, place_elements
from everybit.core.rule import rule
from everybit.core.tree import LEAF_BYTES
from everybit.files.changes import changes_in
from everybit.files.element_places import elements_at
from everybit.files.elements import tensor_digest
from everybit.files.seals.localize import Differences, join_ranges
from everybit.files.seals.patched import PatchedSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.core.finding import Finding
    from everybit.files.seals.manifest import SealedFile
    from everybit.files.source import ByteSource
    from everybit.files.tensor import FileTensor

#: More ranges than this are not listed.
MAX_RANGES: Final = 10_000

Span = tuple[int, int]


@dataclass(slots=True, kw_only=True)
class _Held:
    """What a tensor holds of the damage."""

    tensor: FileTensor
    changes: list[Change] = field(default_factory=list)
    exact: list[int] = field(default_factory=list)
    ranges: list[Span] = field(default_factory=list)
    found: str = ""

    def key(self) -> tuple[tuple[int, ...], tuple[Span, ...]]:
        return tuple(self.exact), tuple(self.ranges)


def damaged_tensors(
    source: ByteSource, sealed: SealedFile, differences: Differences, name: str
) -> tuple[list[Finding], Callable[[Span], bool]]:
    """Return findings for the tensors that changed, and which differing ranges they explain.

    A tensor is named only where its own digest differs or the change is proven to the bit. Views of
    the same damaged bytes are one finding.
    """
    held: dict[Any, list[_Held]] = {}
    explained: set[Span] = set()
    leaves = _Ranges(differences.ranges)
    points = sorted(differences.right)
    mended = PatchedSource(source, differences.right)
    for tensor in sealed.tensors:
        part = _held_by(source, mended, tensor, differences, points, leaves)
        if part is None:
            continue
        held.setdefault(part.key(), []).append(part)
        explained.update((offset, offset + 1) for offset in part.exact)
        for start, end in part.ranges:
            explained.update(leaves.touching(start, end))
    exact = [span for span in explained if span[1] - span[0] == 1]
    joined = join_ranges(exact)

    def explains(span: Span) -> bool:
        return span in explained or any(a <= span[0] and span[1] <= b for a, b in joined)

    findings = [_finding(parts, name) for parts in held.values()]
    return findings, explains


class _Ranges:
    """Sorted, disjoint ranges, searched by overlap."""

    def __init__(self, ranges: tuple[Span, ...]) -> None:
        self.ranges = ranges
        self.ends = [end for _, end in ranges]

    def touching(self, start: int, end: int) -> list[Span]:
        found = []
        for index in range(bisect.bisect_right(self.ends, start), len(self.ranges)):
            if self.ranges[index][0] >= end:
                break
            found.append(self.ranges[index])
        return found


def _held_by(
    source: ByteSource,
    mended: ByteSource,
    tensor: FileTensor,
    differences: Differences,
    points: list[int],
    leaves: _Ranges,
) -> _Held | None:
    part = _Held(tensor=tensor)
    for start, end in tensor.byte_ranges:
        low, high = bisect.bisect_left(points, start), bisect.bisect_left(points, end)
        part.exact += points[low:high]
        part.ranges += [(max(start, a), min(end, b)) for a, b in leaves.touching(start, end)]
    if not part.exact and not part.ranges:
        return None
    if tensor.unreadable or tensor.tree is None:
        return _held_without_digest(source, part, differences, leaves)
    part.changes = changes_in(source, tensor, {at: differences.right[at] for at in part.exact})
    if any(end > source.size for _, end in tensor.byte_ranges):
        # Cut: the truncation says so; only what is proven counts here.
        part.ranges = []
        return part if part.changes else None
    if part.ranges and tensor_digest(mended, tensor) == tensor.tree:
        # With the proven bytes put right it is whole, so its neighbours hold the rest.
        part.ranges = []
    if not part.ranges and not part.changes and not part.exact:
        return None
    if part.ranges or not part.changes:
        found = tensor_digest(source, tensor)
        if found == tensor.tree:
            return None
        part.found = str(found)
    return part


def _held_without_digest(
    source: ByteSource, part: _Held, differences: Differences, leaves: _Ranges
) -> _Held | None:
    """Return what a tensor holds that has no digest of its own (compressed, or repeated often).

    Only bytes that are certainly its own count: no digest tells whose the rest of a leaf is.
    """
    (start, end) = part.tensor.byte_ranges[0]
    if end > source.size:
        return None
    part.ranges = [(a, b) for a, b in leaves.touching(start, end) if start <= a and b <= end]
    if not part.exact and not part.ranges:
        return None
    right = {at: differences.right[at] for at in part.exact}
    part.changes = changes_in(source, part.tensor, right)
    return part


def _finding(parts: list[_Held], name: str) -> Finding:
    part = parts[0]
    tensor = part.tensor
    spans = join_ranges([*[(at, at + 1) for at in part.exact], *part.ranges])
    place: dict[str, Any] = {"path": name, "tensor": tensor.name, "member": tensor.member}
    if tensor.unreadable:
        pass  # bytes of a compressed stream are no elements
    elif part.ranges:
        blocks = [block for start, end in part.ranges for block in elements_at(tensor, start, end)]
        blocks += [(change.element, change.element + 1) for change in part.changes]
        place["element_ranges"] = tuple(join_ranges(blocks)[:MAX_RANGES])
    else:
        place |= place_elements(change.element for change in part.changes)
    if len(spans) == 1 or (spans and not part.ranges and spans[-1][1] - spans[0][0] <= 16):
        place["byte_range"] = (spans[0][0], spans[-1][1])
    else:
        place["byte_ranges"] = tuple(spans[:MAX_RANGES])
    evidence: dict[str, Any] = {}
    if tensor.tree is not None:
        evidence["expected"] = str(tensor.tree)
    if tensor.unreadable:
        evidence["stored"] = tensor.unreadable
    if part.found:
        evidence["found"] = part.found
    if part.changes:
        evidence |= evidence_of(part.changes)
        evidence["proven_by"] = "put right, the leaf gives its sealed digest"
    if part.ranges:
        evidence["resolution_bytes"] = LEAF_BYTES
    if len(parts) > 1:
        evidence["also"] = [other.tensor.name for other in parts[1:17]]
    return rule("FIL102").finding(
        f"{name}: tensor {tensor.name} {_amount(part)}",
        where=Location(**{key: value for key, value in place.items() if value is not None}),
        evidence=evidence,
    )


def _amount(part: _Held) -> str:
    if part.ranges or not part.changes:
        return "changed"
    num_bits = sum(len(change.bits) for change in part.changes)
    bits = "one bit" if num_bits == 1 else f"{num_bits} bits"
    if len(part.changes) == 1:
        return f"changed in {bits} of element {part.changes[0].element}"
    return f"changed in {bits} of {len(part.changes)} elements"

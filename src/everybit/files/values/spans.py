"""The bytes of a file that tensors hold, as disjoint spans in file order.

Tied weights and views of one storage share bytes, which are read and judged once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from everybit.files.values.floats import FloatKind, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from everybit.files.tensor import FileTensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A range of bytes that one tensor holds, or several that overlap.

    Attributes:
        start: First byte in the file.
        end: Last byte, excluded.
        tensors: Who holds it, the one with most bytes there first.
        kind: Format of its elements; None for integers.
        big_endian: Its elements are stored big-endian.
    """

    start: int
    end: int
    tensors: tuple[FileTensor, ...]
    kind: FloatKind | None
    big_endian: bool = False

    @property
    def tensor(self) -> FileTensor:
        """The tensor that tells of the span."""
        return self.tensors[0]

    @property
    def names(self) -> list[str]:
        """All tensors that lie in it."""
        return [tensor.name for tensor in self.tensors]

    @property
    def itemsize(self) -> int:
        """Bytes a component that the senses look at."""
        return self.kind.itemsize if self.kind is not None else self.tensor.itemsize


def spans_of(tensors: Iterable[FileTensor]) -> list[Span]:
    """Return the spans of a file's tensors, sorted; those without readable bytes have none."""
    tensors = list(tensors)
    names = {tensor.name for tensor in tensors}
    parts = [
        (start, end, tensor)
        for tensor in tensors
        if not tensor.unreadable and tensor.inline is None
        for start, end in tensor.byte_ranges
        if start < end
    ]
    parts.sort(key=lambda part: (part[0], -part[1]))
    spans: list[Span] = []
    group: list[tuple[int, int, FileTensor]] = []
    reach = 0
    for part in parts:
        if group and part[0] >= reach:
            spans.append(_span(group, names))
            group = []
        group.append(part)
        reach = max(reach, part[1]) if len(group) > 1 else part[1]
    if group:
        spans.append(_span(group, names))
    return spans


def _span(group: list[tuple[int, int, FileTensor]], names: set[str]) -> Span:
    start, end = group[0][0], max(part[1] for part in group)
    tensors: tuple[FileTensor, ...] = (group[0][2],)
    if len(group) > 1:
        group = sorted(group, key=lambda part: part[0] - part[1])
        tensors = tuple(dict.fromkeys(part[2] for part in group))
    first = tensors[0]
    # Views of other types over the same bytes would be judged as what they are not.
    alike = all(
        (tensor.dtype, tensor.big_endian) == (first.dtype, first.big_endian) for tensor in tensors
    )
    return Span(
        start=start,
        end=end,
        tensors=tensors,
        kind=kind_of(first) if alike and not _is_packed(first.name, names) else None,
        big_endian=first.big_endian,
    )


def _is_packed(name: str, names: set[str]) -> bool:
    """Return whether a tensor's dtype only lends its width to quantised data.

    bitsandbytes keeps 4-bit weights in storage of a floating type where FSDP wants that; what they
    are is told by the tensors beside them.
    """
    return f"{name}.absmax" in names or f"{name}.quant_map" in names

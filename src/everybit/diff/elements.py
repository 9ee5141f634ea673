"""Which elements of two stored tensors differ, streaming over both."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from everybit.core.change import MAX_LISTED, Change, changes_between
from everybit.core.dtype import ITEMSIZE
from everybit.diff.stored import SideBySide

if TYPE_CHECKING:
    from everybit.core.dtype import Number
    from everybit.diff.stored import StoredTensor

#: Ranges of differing elements told; the last one reaches to the last differing element.
MAX_RANGES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The differing elements of two tensors of one dtype and shape.

    Attributes:
        num_elements: How many differ.
        num_bits: How many bits differ in all.
        changes: The first of them, with values (before: A, after: B) and bits.
        ranges: `[start, end)` ranges that hold them, the first exact; where they are more than
            are told, the last reaches over the rest.
        whole: Whether `ranges` is exact.
    """

    num_elements: int
    num_bits: int
    changes: tuple[Change, ...]
    ranges: tuple[tuple[int, int], ...]
    whole: bool

    @property
    def span(self) -> tuple[int, int]:
        """`[first, last)` over all differing elements."""
        return (self.ranges[0][0], self.ranges[-1][1]) if self.ranges else (0, 0)

    @property
    def place(self) -> dict[str, Any]:
        """The `Location` keyword for the elements."""
        if self.num_elements <= len(self.changes):
            return {"elements": tuple(change.element for change in self.changes)}
        return {"element_ranges": self.ranges}


class ElementTally:
    """Counts differing elements over chunks that arrive in order.

    Args:
        dtype: Canonical dtype name.
        size: Bytes an element.
    """

    def __init__(self, dtype: str, size: int) -> None:
        self._dtype = dtype if ITEMSIZE.get(dtype) == size else "uint8"
        self._size = size
        self._num_elements = self._num_bits = 0
        self._changes: list[Change] = []
        self._ranges: list[tuple[int, int]] = []
        self._whole = True

    def add(self, start: int, one: bytes, other: bytes) -> Any:
        """Add a differing chunk that starts at byte `start`.

        Returns:
            Indices in the chunk of the elements that differ.
        """
        import numpy as np

        size = self._size
        flipped = np.frombuffer(one, np.uint8) ^ np.frombuffer(other, np.uint8)
        self._num_bits += _count_ones(flipped)
        if size in (2, 4, 8):
            at = np.flatnonzero(flipped.view(f"<u{size}"))
        else:
            at = np.flatnonzero(flipped.reshape(-1, size).any(axis=1))
        self._num_elements += len(at)
        first = start // size
        for index in at[: MAX_LISTED - len(self._changes)].tolist():
            span = slice(index * size, (index + 1) * size)
            self._changes += changes_between(self._dtype, one[span], other[span], first + index)
        if not self._whole:
            self._ranges[-1] = (self._ranges[-1][0], int(at[-1]) + first + 1)
            return at
        cuts = np.flatnonzero(np.diff(at) > 1)
        cuts = cuts[: MAX_RANGES + 1] if len(cuts) > MAX_RANGES else cuts
        begins = (at[np.concatenate(([0], cuts + 1))] + first).tolist()
        ends = (at[np.concatenate((cuts, [len(at) - 1]))] + first + 1).tolist()
        self._whole = _extend(self._ranges, list(zip(begins, ends, strict=True))) and self._whole
        return at

    def result(self) -> Changed:
        """Return what was counted."""
        return Changed(
            num_elements=self._num_elements,
            num_bits=self._num_bits,
            changes=tuple(self._changes),
            ranges=tuple(self._ranges),
            whole=self._whole,
        )


def changed_elements(a: StoredTensor, b: StoredTensor) -> Changed:
    """Compare the bytes of two tensors of the same dtype and shape; holds a chunk of each."""
    tally = ElementTally(a.dtype, a.itemsize)
    for start, one, other in SideBySide(a, b).differing():
        tally.add(start, one, other)
    return tally.result()


def tell_change(change: Change) -> str:
    """Return a changed element in words.

    >>> tell_change(Change(element=2, before=1.0, after=-1.0, bits=(31,)))
    'element 2, bit 31: 1 in A, -1 in B'
    """
    bits = ", ".join(map(str, change.bits))
    values = f"{_number(change.before)} in A, {_number(change.after)} in B"
    return f"element {change.element}, bit{'s' if len(change.bits) > 1 else ''} {bits}: {values}"


def _number(value: Number) -> str:
    return str(value) if isinstance(value, int) else f"{value:.9g}"


def _count_ones(data: Any) -> int:
    import numpy as np

    if hasattr(np, "bitwise_count") and not len(data) % 8:
        return int(np.bitwise_count(data.view(np.uint64)).sum(dtype=np.int64))
    return int(_bit_counts()[data].sum(dtype=np.int64))


@cache
def _bit_counts() -> Any:
    import numpy as np

    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
    return bits.sum(axis=1, dtype=np.uint8)


def _extend(ranges: list[tuple[int, int]], more: list[tuple[int, int]]) -> bool:
    """Append ranges, joining neighbours; whether all of them found room."""
    for begin, end in more:
        if ranges and ranges[-1][1] == begin:
            ranges[-1] = (ranges[-1][0], end)
        elif len(ranges) < MAX_RANGES:
            ranges.append((begin, end))
        else:
            ranges[-1] = (ranges[-1][0], more[-1][1])
            return False
    return True

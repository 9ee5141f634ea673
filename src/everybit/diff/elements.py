"""Which elements of two stored tensors differ, streaming over both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from everybit.core.change import MAX_LISTED, Change, changes_between
from everybit.core.dtype import ITEMSIZE

if TYPE_CHECKING:
    from everybit.diff.stored import StoredTensor

#: Bytes of each side held at a time; a multiple of every element size.
CHUNK_BYTES: Final = 16 * 1024 * 1024
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
    def place(self) -> dict[str, Any]:
        """The `Location` keyword for the elements."""
        if self.num_elements <= len(self.changes):
            return {"elements": tuple(change.element for change in self.changes)}
        return {"element_ranges": self.ranges}


def changed_elements(a: StoredTensor, b: StoredTensor) -> Changed:
    """Compare the bytes of two tensors of the same dtype and shape; holds a chunk of each."""
    import numpy as np

    size = a.itemsize
    dtype = a.dtype if ITEMSIZE.get(a.dtype) == size else "uint8"
    num_elements = num_bits = 0
    changes: list[Change] = []
    ranges: list[tuple[int, int]] = []
    whole = True
    for start in range(0, a.num_bytes, CHUNK_BYTES):
        end = min(start + CHUNK_BYTES, a.num_bytes)
        one, other = a.read(start, end), b.read(start, end)
        if one == other:
            continue
        left, right = np.frombuffer(one, np.uint8), np.frombuffer(other, np.uint8)
        flipped = left ^ right
        at = np.flatnonzero(flipped.reshape(-1, size).any(axis=1))
        num_elements += len(at)
        num_bits += int(np.unpackbits(flipped[flipped != 0]).sum())
        first = start // size
        for index in at[: MAX_LISTED - len(changes)].tolist():
            span = slice(index * size, (index + 1) * size)
            changes += changes_between(dtype, one[span], other[span], first + index)
        cuts = np.flatnonzero(np.diff(at) > 1)
        begins = (at[np.concatenate(([0], cuts + 1))] + first).tolist()
        ends = (at[np.concatenate((cuts, [len(at) - 1]))] + first + 1).tolist()
        whole = _extend(ranges, list(zip(begins, ends, strict=True))) and whole
    return Changed(
        num_elements=num_elements,
        num_bits=num_bits,
        changes=tuple(changes),
        ranges=tuple(ranges),
        whole=whole,
    )


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

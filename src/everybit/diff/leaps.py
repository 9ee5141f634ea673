"""Single elements that changed far more than all others of their tensor, by one flipped bit.

Where a whole tensor has moved, by training or by another kernel's rounding, a flipped bit shows by
two things together: its change is many times the next largest one, and there is a bit of the
element's value in A whose flip gives the value in B, within what the others moved.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

#: Elements that may stand out of one tensor.
MAX_LEAPS: Final = 16
#: How many times the next largest change they are, and how many elements moved for each.
_RATIO: Final = 64.0
_MOVED: Final = 64
_WORDS: Final = {"float64": "u8", "float32": "u4", "float16": "u2", "bfloat16": "u4"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Leap:
    """An element that stands out.

    Attributes:
        element: Its flat index.
        before: A's value.
        after: B's value.
        bit: The bit whose flip accounts for it, within what the others moved.
        times: How many times the next largest change its own is.
    """

    element: int
    before: float
    after: float
    bit: int
    times: float


@dataclass(slots=True)
class Leaps:
    """Keeps the largest changes of a tensor, over chunks.

    Args:
        dtype: Canonical dtype name.
    """

    dtype: str
    _kept: list[tuple[float, int, float, float]] = field(default_factory=list)

    def add(self, at: Any, one: Any, other: Any, change: Any, first: int) -> None:
        """Add the differing elements of a chunk, all of them finite.

        Args:
            at: Their places in the chunk.
            one: A's values there.
            other: B's values there.
            change: Absolute differences.
            first: Flat index of the chunk's first element.
        """
        import numpy as np

        room = MAX_LEAPS + 1
        floor = self._kept[-1][0] if len(self._kept) == room else 0.0
        pick = np.flatnonzero(change > floor)
        if len(pick) > room:
            pick = pick[np.argpartition(change[pick], len(pick) - room)[-room:]]
        self._kept += [
            (float(change[p]), int(at[p]) + first, float(one[p]), float(other[p])) for p in pick
        ]
        self._kept.sort(reverse=True)
        del self._kept[room:]

    def found(self, num_elements: int) -> list[Leap]:
        """Return the elements that stand out of so many that differ; mostly none."""
        if self.dtype not in _WORDS:
            return []
        sizes = [each[0] for each in self._kept]
        for count in range(1, len(sizes)):
            if count * _MOVED > num_elements:
                break
            if sizes[count - 1] < _RATIO * sizes[count]:
                continue
            leaps = []
            for size, element, before, after in self._kept[:count]:
                bit = _bit_between(self.dtype, before, after, within=2 * sizes[count])
                if bit is None:
                    return []
                times = size / sizes[count]
                leaps.append(
                    Leap(element=element, before=before, after=after, bit=bit, times=times)
                )
            return sorted(leaps, key=lambda leap: leap.element)
        return []


def _bit_between(dtype: str, before: float, after: float, *, within: float) -> int | None:
    """Return the bit whose flip takes a value to another, nearly; None where there is none.

    >>> _bit_between("float32", 1.0, 1.5000001, within=1e-6)
    22
    """
    import numpy as np

    shift = 16 if dtype == "bfloat16" else 0
    kind = np.dtype("float32" if shift else dtype)
    word = np.array(before, kind).view(_WORDS[dtype])
    bits = np.arange(shift, 8 * kind.itemsize, dtype=word.dtype)
    flipped = (word ^ (word.dtype.type(1) << bits)).view(kind).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        # A flip of the exponent makes the move before it larger as well.
        larger = np.maximum(1.0, np.abs(flipped / before)) if before else np.ones(len(bits))
        distance = np.abs(flipped - after) / larger
    distance[~np.isfinite(distance)] = np.inf
    best = int(distance.argmin())
    # Counted from the least significant one, of a bfloat16 too.
    return best if distance[best] <= within else None

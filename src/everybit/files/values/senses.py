"""Cheap tests of bytes while they lie in the cache: what deserves exact work, and nothing more.

A chunk of ordinary weights costs one OR over its patterns: no value of 2 and more has all its top
exponent bits clear, and neither has one that is not finite. Zeros are looked for one word a sector.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from everybit.files.values.floats import are_bad, are_infinite

if TYPE_CHECKING:
    from everybit.files.values.floats import FloatKind

#: Disks and file systems lose data in multiples of this.
SECTOR_BYTES: Final = 512
#: Non-finite elements whose places are kept, for each span.
MAX_PLACES: Final = 32
_SECTOR_WORDS: Final = SECTOR_BYTES // 8
_LONG_ROW: Final = 1024
_SHORT_ROW: Final = 32


@dataclass(slots=True)
class Sensed:
    """What the senses found in a span, or in a piece of one.

    Attributes:
        exponents: Exponent patterns of the largest magnitudes in runs of elements, where any is
            far above 2; others are left out.
        num_nan: Elements that are NaN.
        num_infinite: Elements that are infinite.
        places: Offsets in the file of the first that are not finite.
    """

    exponents: set[int] = field(default_factory=set)
    num_nan: int = 0
    num_infinite: int = 0
    places: list[int] = field(default_factory=list)

    @property
    def num_bad(self) -> int:
        """Elements that are not finite."""
        return self.num_nan + self.num_infinite

    def add(self, other: Sensed) -> None:
        """Take in what was found further on in the same span."""
        self.exponents |= other.exponents
        self.num_nan += other.num_nan
        self.num_infinite += other.num_infinite
        self.places += other.places[: MAX_PLACES - len(self.places)]


def sense(patterns: Any, kind: FloatKind, at: int) -> Sensed | None:
    """Return what is notable in some elements; None where nothing is.

    Values below 2, and those so little above that no gap can lie between, are passed over.

    Args:
        patterns: Their bit patterns, an unsigned array of `kind.unsigned` in native order.
        kind: Their format.
        at: Offset of the first in the file.
    """
    import numpy as np

    if not len(patterns):
        return None
    if kind.shift:
        if not int(np.bitwise_or.reduce(patterns)) & kind.top:
            return None
        if _largest(patterns, kind) >> kind.shift < kind.bias + kind.wide:
            return None
        found = Sensed(exponents=_exponents(patterns, kind))
        if (kind.first_bad >> kind.shift) not in found.exponents:
            return found
    elif not _has_bad_byte(patterns, kind):
        return None
    else:
        found = Sensed()
    bad = np.flatnonzero(are_bad(patterns, kind))
    if len(bad):
        infinite = int(np.count_nonzero(are_infinite(patterns[bad], kind)))
        found.num_nan, found.num_infinite = len(bad) - infinite, infinite
        found.places = [at + int(index) * kind.itemsize for index in bad[:MAX_PLACES]]
    return found


def _has_bad_byte(patterns: Any, kind: FloatKind) -> bool:
    if kind.bad == 0x80:
        return int(patterns.view("i1").min()) == -128
    if kind.bad == 0xFF:
        return int(patterns.max()) == 0xFF
    largest = int(patterns.view("i1").max())
    return largest >= kind.first_bad or int(patterns.max()) >= (kind.first_bad | 0x80)


def _largest(patterns: Any, kind: FloatKind) -> int:
    """Return the largest magnitude: as signed numbers a positive one wins, as unsigned a negative.

    With no negative one among them both are the same.
    """
    signed, unsigned = int(patterns.view(kind.signed).max()), int(patterns.max())
    return max(signed, unsigned & (kind.sign - 1))


def _exponents(patterns: Any, kind: FloatKind) -> set[int]:
    """Return the exponents of the largest magnitude of each row of a few elements."""
    import numpy as np

    found: set[int] = set()
    length = len(patterns)
    row = _LONG_ROW if length >= 16 * _LONG_ROW else _SHORT_ROW if length >= 1024 else 1
    whole = length // row * row
    mask = kind.sign - 1
    for rows, size in ((patterns[:whole], row), (patterns[whole:], 1)):
        if not len(rows):
            continue
        # As signed numbers the largest positive comes out, as unsigned the largest negative.
        table = rows.reshape(-1, size)
        signed = table.view(kind.signed).max(axis=1)
        unsigned = table.max(axis=1)
        largest = np.concatenate((signed[signed > 0].view(kind.unsigned), unsigned & mask))
        found.update((largest >> kind.shift).tolist())
    return found


def zero_sectors(data: Any, at: int) -> list[tuple[int, int]]:
    """Return the runs of whole sectors of zeros, as sorted `[start, end)` offsets in the file.

    Args:
        data: Bytes (an array of `u1`) that start on a sector of the file.
        at: Offset of the first in the file.

    """
    import numpy as np

    num_sectors = len(data) // SECTOR_BYTES
    if not num_sectors:
        return []
    words = data[: num_sectors * SECTOR_BYTES].view("u8")
    suspects = np.flatnonzero(words[::_SECTOR_WORDS] == 0)
    if not len(suspects):
        return []
    table = words.reshape(-1, _SECTOR_WORDS)
    zero = suspects if len(suspects) < num_sectors else np.arange(num_sectors)
    zero = zero[table[zero].max(axis=1) == 0]
    if not len(zero):
        return []
    cuts = np.flatnonzero(np.diff(zero) > 1) + 1
    starts = zero[np.concatenate(([0], cuts))] * SECTOR_BYTES + at
    ends = (zero[np.concatenate((cuts - 1, [len(zero) - 1]))] + 1) * SECTOR_BYTES + at
    return list(zip(starts.tolist(), ends.tolist(), strict=True))

"""Elements that no distribution of their tensor explains: the mark of a flipped exponent bit.

Judged are octaves: how far the few largest magnitudes lie above all the others. Trained weights
with outlier rows, second moments over thirty decades, tables of frequencies: all are dense in
octaves. One flip of the top exponent bit leaves 2^128 between an element and its like, or 2^16 in
float16; no narrower gap is taken for damage.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from everybit.files.values.patterns import elements_of, patterns_in, value_of

if TYPE_CHECKING:
    from everybit.core.dtype import Number
    from everybit.files.source import ByteSource
    from everybit.files.values.floats import FloatKind
    from everybit.files.values.senses import Sensed
    from everybit.files.values.spans import Span

#: More elements than this are no accident of a bit.
_MAX_ELEMENTS: Final = 8
#: Fewer others say nothing about what is usual.
_MIN_OTHERS: Final = 16
_MIN_OTHERS_UNEXPLAINED: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlier:
    """One implausible element.

    Attributes:
        place: Offset in the file.
        element: Flat index in the tensor; None where strides skip it.
        value: What it holds.
        bit: The exponent bit whose flip explains it, from the least significant; None without.
        before: The value that it would have been.
    """

    place: int
    element: int | None
    value: Number
    bit: int | None
    before: Number | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Implausible:
    """A tensor with implausible elements.

    Attributes:
        span: Where.
        outliers: The elements, in file order.
        octaves: Powers of two between them and all others.
        largest: The largest magnitude of the others.
        median_octave: Half of the others that are not zero have this exponent or less.
    """

    span: Span
    outliers: tuple[Outlier, ...]
    octaves: int
    largest: float
    median_octave: int


def may_be_implausible(sensed: Sensed, kind: FloatKind) -> bool:
    """Return whether the octaves that the senses saw leave a gap that deserves exact work."""
    if not kind.gap or not sensed.exponents:
        return False
    # What the senses passed over lies below 2.
    octaves = sorted({*sensed.exponents, kind.bias} - {kind.first_bad >> kind.shift})
    return any(high - low >= kind.wide for low, high in itertools.pairwise(octaves))


def find_implausible(source: ByteSource, span: Span) -> Implausible | None:
    """Judge a floating span by the magnitudes of all its elements."""
    import numpy as np

    kind = span.kind
    assert kind is not None
    num_octaves = 1 << (8 * kind.itemsize - 1 - kind.shift)
    counts = np.zeros(num_octaves, dtype=np.int64)
    for _, patterns in patterns_in(source, span):
        magnitudes = patterns & (kind.sign - 1)
        octaves = (magnitudes[magnitudes != 0] >> kind.shift).astype(np.int64)
        counts += np.bincount(octaves, minlength=num_octaves)
    counts[-1] = 0  # not finite: another rule's
    split = _split(counts, kind)
    if split is None:
        return None
    low, high = split
    others = counts[: low + 1]
    num_others = int(others.sum())
    cumulative = np.cumsum(others)
    median = int(np.searchsorted(cumulative, num_others / 2))
    smallest = int(np.searchsorted(cumulative, num_others / 1000))
    if high - low < low - median:
        return None
    outliers, largest = _collect(source, span, high, low, smallest)
    if not _credible(span, outliers, num_others):
        return None
    return Implausible(
        span=span,
        outliers=tuple(outliers),
        octaves=high - low,
        largest=largest,
        median_octave=median - kind.bias,
    )


def _split(counts: Any, kind: FloatKind) -> tuple[int, int] | None:
    """Return the octaves on both sides of a gap below the few largest; None without one."""
    import numpy as np

    filled = np.flatnonzero(counts).tolist()
    above = 0
    for index in range(len(filled) - 1, 0, -1):
        above += int(counts[filled[index]])
        if above > _MAX_ELEMENTS:
            return None
        if filled[index] - filled[index - 1] >= kind.gap:
            return filled[index - 1], filled[index]
    return None


def _collect(
    source: ByteSource, span: Span, high: int, low: int, smallest: int
) -> tuple[list[Outlier], float]:
    import numpy as np

    kind = span.kind
    assert kind is not None
    outliers: list[Outlier] = []
    largest = 0
    for at, patterns in patterns_in(source, span):
        magnitudes = patterns & (kind.sign - 1)
        far = (magnitudes >> kind.shift >= high) & (magnitudes < kind.first_bad)
        for index in np.flatnonzero(far).tolist():
            place = at + index * kind.itemsize
            pattern = int(patterns[index])
            bit = _explaining_bit(pattern, kind, low, smallest)
            elements = elements_of(span, [place])
            outliers.append(
                Outlier(
                    place=place,
                    element=elements[0] if elements else None,
                    value=value_of(pattern, kind),
                    bit=bit,
                    before=value_of(pattern ^ 1 << bit, kind) if bit is not None else None,
                )
            )
        others = magnitudes[magnitudes >> kind.shift <= low]
        largest = max(largest, int(others.max()) if len(others) else 0)
    value = value_of(largest, kind)
    return outliers, float(value.real)


def _explaining_bit(pattern: int, kind: FloatKind, low: int, smallest: int) -> int | None:
    """Return the highest exponent bit whose flip puts a pattern among the tensor's others."""
    for bit in range(8 * kind.itemsize - 2, kind.shift - 1, -1):
        octave = ((pattern ^ 1 << bit) & (kind.sign - 1)) >> kind.shift
        if pattern >> bit & 1 and smallest <= octave <= low:
            return bit
    return None


def _credible(span: Span, outliers: list[Outlier], num_others: int) -> bool:
    """Return whether the elements look like an accident and not like somebody's intention."""
    if not outliers or num_others < _MIN_OTHERS:
        return False
    if any(_is_round(outlier.value, span) for outlier in outliers):
        return False
    if len(outliers) > 1 and len({abs(outlier.value) for outlier in outliers}) == 1:
        return False
    if all(outlier.bit is not None for outlier in outliers):
        return len(outliers) == 1 or not _is_row(span, outliers)
    matrix = sum(size > 1 for size in span.tensor.shape) > 1
    if not matrix or num_others < _MIN_OTHERS_UNEXPLAINED:
        return False
    reach = outliers[-1].place - outliers[0].place
    together = reach <= _MAX_ELEMENTS * span.itemsize
    return together and (len(outliers) == 1 or not _is_row(span, outliers))


def _is_round(value: Number, span: Span) -> bool:
    """Return whether a number was written by a person: a power of ten, the format's largest."""
    assert span.kind is not None
    magnitude = abs(value)
    digits = f"{magnitude:.6e}"
    if digits.startswith(("1.000000", "9.999999")) and span.kind.itemsize > 2:
        return True
    if digits.startswith(("1.00", "9.9")) and span.kind.itemsize == 2 and magnitude >= 1e4:
        return True
    return magnitude == value_of(span.kind.first_bad - 1, span.kind)


def _is_row(span: Span, outliers: list[Outlier]) -> bool:
    """Return whether the elements are one whole row or column of their tensor."""
    import numpy as np

    shape = span.tensor.shape
    elements = [outlier.element for outlier in outliers if outlier.element is not None]
    if len(elements) != len(outliers) or not shape:
        return False
    places = np.unravel_index(elements, shape)
    moving = [axis for axis, index in enumerate(places) if len(set(index.tolist())) > 1]
    return len(moving) == 1 and len(elements) == shape[moving[0]]

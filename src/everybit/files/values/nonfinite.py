"""NaN and infinity in stored tensors, told from the infinities of masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from everybit.files.values.floats import are_bad
from everybit.files.values.patterns import elements_of, patterns_in

if TYPE_CHECKING:
    from everybit.files.source import ByteSource
    from everybit.files.values.senses import Sensed
    from everybit.files.values.spans import Span

#: A smaller tensor of infinities is somebody's "no value yet".
_MIN_ELEMENTS: Final = 16
#: A larger share of infinities is a pattern, not an accident.
_MASK_SHARE: Final = 1 / 16


@dataclass(frozen=True, slots=True, kw_only=True)
class NonFinite:
    """A tensor that holds values which are not finite.

    Attributes:
        span: Where.
        num_nan: Elements that are NaN.
        num_infinite: Elements that are infinite.
        num_elements: Elements there.
        elements: The first of them, flat indices.
        places: Their offsets in the file.
    """

    span: Span
    num_nan: int
    num_infinite: int
    num_elements: int
    elements: tuple[int, ...]
    places: tuple[int, ...]

    @property
    def what(self) -> str:
        """What is there, in words."""
        parts = [(self.num_nan, "NaN"), (self.num_infinite, "infinite")]
        return " and ".join(f"{count:,} {word}" for count, word in parts if count)


def find_nonfinite(source: ByteSource, span: Span, sensed: Sensed) -> NonFinite | None:
    """Judge a floating span in which the senses saw values that are not finite."""
    assert span.kind is not None
    num_elements = (span.end - span.start) // span.kind.itemsize
    if not sensed.num_nan and (
        num_elements < _MIN_ELEMENTS
        or sensed.num_infinite >= _MASK_SHARE * num_elements
        or _is_mask(source, span)
    ):
        return None
    return NonFinite(
        span=span,
        num_nan=sensed.num_nan,
        num_infinite=sensed.num_infinite,
        num_elements=num_elements,
        elements=tuple(elements_of(span, sensed.places)),
        places=tuple(sensed.places),
    )


def _is_mask(source: ByteSource, span: Span) -> bool:
    """Return whether all finite elements are one and the same, as in a mask or a bias of tokens."""
    import numpy as np

    assert span.kind is not None
    known = None
    for _, patterns in patterns_in(source, span):
        finite = patterns[~are_bad(patterns, span.kind)]
        distinct = np.unique(finite[: 1 << 12])
        if not len(distinct):
            continue
        known = int(distinct[0]) if known is None else known
        if len(distinct) > 1 or not bool((finite == known).all()):
            return False
    return True

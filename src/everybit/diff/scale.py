"""Whether one tensor is the other times one factor."""

from __future__ import annotations

import math
from typing import Any, Final

from everybit.diff.values import MANTISSA_BITS

#: Distance of neighbours below the normal range, where it is not small beyond all weights.
_SUBNORMAL: Final = {
    "float16": 2.0**-24,
    "float8_e4m3fn": 2.0**-9,
    "float8_e4m3fnuz": 2.0**-10,
    "float8_e5m2": 2.0**-16,
    "float8_e5m2fnuz": 2.0**-17,
}


class Scale:
    """Whether B's differing elements are A's times one factor, within rounding."""

    def __init__(self, dtype: str) -> None:
        self._room = 2.0 ** -MANTISSA_BITS.get(dtype, 52)
        self._smallest = _SUBNORMAL.get(dtype, 1e-37)
        self._live = dtype in MANTISSA_BITS
        self._factor: float | None = None
        self._num = 0

    def add(self, x: Any, y: Any, at: Any) -> None:
        """Add a chunk's values, and the places at which they differ."""
        import numpy as np

        if not self._live:
            return
        one, other = picked(x, at), picked(y, at)
        if not (np.isfinite(one).all() and np.isfinite(other).all()):
            self._live = False
            return
        if self._factor is None:
            norm = product(one, one)
            self._factor = _snapped(product(one, other) / norm, self._room) if norm else 0.0
        expected = one * self._factor
        # Values that fell below the normal range have lost more than their last bit.
        if self._factor == 1.0:
            self._live = False
            return
        near = np.abs(other - expected) <= self._room * np.abs(expected) * 1.01 + self._smallest
        self._live = bool(near.all()) and self._factor != 0.0
        self._num += len(at)

    def result(self) -> float | None:
        """Return the factor, None where there is none."""
        return self._factor if self._live and self._factor is not None and self._num > 1 else None


def _snapped(factor: float, room: float) -> float:
    """Return a factor as the power of two that it is within rounding, else as it is."""
    if not math.isfinite(factor) or factor == 0:
        return 0.0
    power = math.copysign(2.0 ** round(math.log2(abs(factor))), factor)
    return power if abs(factor / power - 1) <= 2 * room else factor


def picked(values: Any, at: Any) -> Any:
    """Return the elements at some places, without a copy where these are all."""
    return values if len(at) == len(values) else values[at]


def product(one: Any, other: Any) -> float:
    """Return the inner product of two vectors."""
    import numpy as np

    # Not `@`: the threads of a linear algebra library cost more than they bring here.
    return float(np.einsum("i,i->", one, other))

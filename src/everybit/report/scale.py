"""Axes: values to places between 0 and 1, and round numbers to label them with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

#: A ratio of highest to lowest from which a logarithmic axis shows more.
LOG_RATIO: Final = 12.0


class Kind(StrEnum):
    """How an axis is divided."""

    LINEAR = "linear"
    LOG = "log"
    SIGNED_LOG = "signed log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """An axis from `low` to `high`.

    >>> scale = Scale(kind=Kind.LOG, low=1.0, high=1000.0)
    >>> round(scale.place(10.0), 6), [tick for tick in scale.ticks(5)]
    (0.333333, [1.0, 10.0, 100.0, 1000.0])
    """

    kind: Kind
    low: float
    high: float
    unit: float = 1.0

    def place(self, value: float) -> float:
        """Return where `value` lies, 0 at `low` and 1 at `high`; outside is clipped."""
        start, end = self._bend(self.low), self._bend(self.high)
        if end <= start:
            return 0.5
        return min(max((self._bend(value) - start) / (end - start), 0.0), 1.0)

    def ticks(self, wanted: int) -> list[float]:
        """Return about `wanted` round values within the axis."""
        if self.kind is Kind.LINEAR:
            return linear_ticks(self.low, self.high, wanted)
        if self.kind is Kind.LOG:
            return _log_ticks(self.low, self.high, wanted)
        top = math.log10(max(abs(self.low), abs(self.high), self.unit))
        stride = max(1, math.ceil((top - math.log10(self.unit)) / max(wanted // 2, 1)))
        powers = [
            10.0**power for power in range(math.ceil(math.log10(self.unit)), int(top) + 1, stride)
        ]
        signed = [-power for power in reversed(powers)] + [0.0] + powers
        return [tick for tick in signed if self.low <= tick <= self.high]

    def _bend(self, value: float) -> float:
        if self.kind is Kind.LINEAR:
            # Halved, so that the difference of two huge values of either sign stays finite.
            return value / 2
        if self.kind is Kind.LOG:
            return math.log10(max(value, 5e-324))
        return math.asinh(value / self.unit)


def fit_scale(low: float, high: float, typical: float) -> Scale:
    """Choose an axis for values between `low` and `high`.

    Args:
        low: Lowest finite value.
        high: Highest finite value.
        typical: A middling absolute value, the width of the near-linear part of a signed log axis.
    """
    if low > 0 and high / low > LOG_RATIO:
        return Scale(kind=Kind.LOG, low=low, high=high)
    # Not so small that dividing by it overflows, nor that nothing but powers of ten is seen.
    unit = max(abs(typical), abs(low) / 1e12, abs(high) / 1e12, 1e-300)
    if low <= 0 and max(abs(low), abs(high)) / unit > 3000 * LOG_RATIO:
        return Scale(kind=Kind.SIGNED_LOG, low=low, high=high, unit=unit)
    if low == high:
        pad = abs(low) * 0.1 or 1.0
        low, high = low - pad, high + pad
    else:
        pad = high / 25 - low / 25
        # A loss that is never negative gets an axis that is not either.
        low, high = (max(low - pad, 0.0) if low >= 0 else low - pad), high + pad
    limit = 1.7e308
    return Scale(kind=Kind.LINEAR, low=max(low, -limit), high=min(high, limit))


def linear_ticks(low: float, high: float, wanted: int) -> list[float]:
    """Return multiples of 1, 2 or 5 times a power of ten in `[low, high]`.

    >>> linear_ticks(0.0, 10.0, 5)
    [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    """
    span = high / max(wanted, 1) - low / max(wanted, 1)
    if not span > 0 or not math.isfinite(span):
        return [low]
    power = 10.0 ** math.floor(math.log10(span))
    stride = next((m * power for m in (1, 2, 5) if m * power >= span * 0.999), 10 * power)
    if not stride > 0:
        return [low]
    first = math.ceil(low / stride - 1e-9)
    last = math.floor(high / stride + 1e-9)
    return [index * stride for index in range(first, last + 1)][: 4 * wanted + 4]


def step_ticks(low: int, high: int, wanted: int) -> list[int]:
    """Return round step numbers in `[low, high]`.

    >>> step_ticks(0, 3, 6)
    [0, 1, 2, 3]
    """
    ticks = linear_ticks(float(low), float(high), wanted)
    whole = sorted({round(tick) for tick in ticks if abs(tick - round(tick)) < 1e-6})
    return [tick for tick in whole if low <= tick <= high] or [low]


def _log_ticks(low: float, high: float, wanted: int) -> list[float]:
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    if last - first < 1:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        values = [m * 10.0**p for p in powers if p > -308 for m in (1, 2, 5)]
        return [value for value in values if low <= value <= high] or [low]
    stride = max(1, math.ceil((last - first) / max(wanted - 1, 1)))
    return [10.0**power for power in range(first, last + 1, stride)]

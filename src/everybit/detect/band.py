"""The band a number has kept to of late: median and spread over the last steps, and its mean."""

from __future__ import annotations

import math
import statistics
from collections import deque
from dataclasses import dataclass, field
from typing import Final

#: Steps that a band remembers.
WINDOW: Final = 64
#: Steps before the spread of a band means anything.
ENOUGH: Final = 32
#: Weight of the newest value in the moving average.
_WEIGHT: Final = 0.1
#: Makes the median absolute deviation comparable with a standard deviation.
_MAD_TO_SIGMA: Final = 1.4826


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a value stands to the band before it.

    Attributes:
        value: The value.
        count: Values in the band.
        median: Their median.
        spread: Robust standard deviation, from the median absolute deviation.
        average: Moving average of all before it.
        highest: The largest of them.
        z: Robust z: how many spreads above the median; 0 with too few values.
    """

    value: float
    count: int
    median: float
    spread: float
    average: float
    highest: float
    z: float

    def to_json(self) -> dict[str, float]:
        """Return the form of a finding's evidence."""
        return {
            "value": self.value,
            "window": self.count,
            "median": self.median,
            "spread": self.spread,
            "moving_average": self.average,
            "highest_in_window": self.highest,
            "robust_z": round(self.z, 2),
        }


@dataclass(slots=True)
class Band:
    """The last values of a number, finite ones only.

    Attributes:
        values: The last `WINDOW` of them.
        average: Their moving average since the last `clear`.
        start: The largest absolute value of the first few since the last `clear`.
        num_seen: Values since the last `clear`.
    """

    values: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    average: float = 0.0
    start: float = 0.0
    num_seen: int = 0

    def clear(self) -> None:
        """Forget everything: a new phase."""
        self.values.clear()
        self.average = self.start = 0.0
        self.num_seen = 0

    def place(self, value: float, *, floor: float = 0.0) -> Place | None:
        """Return where a value stands to the band; None with no band yet.

        Args:
            value: A finite number, not yet added.
            floor: The least spread to assume.
        """
        if not self.values:
            return None
        median = statistics.median(self.values)
        deviation = statistics.median(abs(each - median) for each in self.values)
        spread = max(_MAD_TO_SIGMA * deviation, floor)
        far = value - median
        z = far / spread if spread > 0 and len(self.values) >= ENOUGH else 0.0
        return Place(
            value=value,
            count=len(self.values),
            median=median,
            spread=spread,
            average=self.average,
            highest=max(self.values),
            z=z,
        )

    def log_z(self, value: float) -> float:
        """Return the robust z of the logarithm, over the newer half of the window.

        What has a heavy tail (losses of single samples) is no spike until it is far out on this
        scale too. Infinite where not all values are above zero.
        """
        if len(self.values) < ENOUGH or value <= 0 or min(self.values) <= 0:
            return math.inf
        logs = [math.log(each) for each in list(self.values)[-ENOUGH:]]
        median = statistics.median(logs)
        spread = _MAD_TO_SIGMA * statistics.median(abs(each - median) for each in logs)
        return (math.log(value) - median) / max(spread, 1e-9)

    def add(self, value: float) -> None:
        """Take a finite value into the band."""
        if self.num_seen < 8:
            self.start = max(self.start, abs(value))
        weight = _WEIGHT if self.num_seen else 1.0
        self.average += weight * (value - self.average)
        self.num_seen += 1
        self.values.append(value)

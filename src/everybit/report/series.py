"""A long series in few buckets: lowest, highest and mean kept, so that no spike is lost."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace


@dataclass(slots=True)
class Bucket:
    """The values of one stretch of steps.

    Attributes:
        first: First step in it that has a value.
        last: Last one.
        low: Lowest finite value; infinite where there is none.
        high: Highest finite value.
        total: Sum of the finite values.
        count: Number of finite values.
        broken: Number of values that are NaN or infinite.
        first_broken: Step of the first of those, -1 with none.
    """

    first: int
    last: int
    low: float = math.inf
    high: float = -math.inf
    total: float = 0.0
    count: int = 0
    broken: int = 0
    first_broken: int = -1

    @property
    def mean(self) -> float:
        """Mean of the finite values, within `[low, high]` whatever rounding does."""
        if not self.count:
            return math.nan
        return min(max(self.total / self.count, self.low), self.high)

    def add(self, step: int, value: float) -> None:
        """Count one value."""
        self.first = min(self.first, step)
        self.last = max(self.last, step)
        if not math.isfinite(value):
            self.first_broken = step if not self.broken else min(step, self.first_broken)
            self.broken += 1
            return
        self.low = min(self.low, value)
        self.high = max(self.high, value)
        self.total += value
        self.count += 1

    def merge(self, other: Bucket) -> None:
        """Take in another bucket."""
        self.first = min(self.first, other.first)
        self.last = max(self.last, other.last)
        self.low = min(self.low, other.low)
        self.high = max(self.high, other.high)
        self.total += other.total
        self.count += other.count
        if other.broken:
            firsts = [b.first_broken for b in (self, other) if b.broken]
            self.first_broken = min(firsts)
            self.broken += other.broken


@dataclass(slots=True)
class Series:
    """Values by step, folded into at most `max_buckets` stretches of equal width as they arrive.

    >>> series = Series(max_buckets=4)
    >>> for step in range(8):
    ...     series.add(step, float(step))
    >>> [(b.first, b.last, b.low, b.high) for b in series.buckets()]
    [(0, 1, 0.0, 1.0), (2, 3, 2.0, 3.0), (4, 5, 4.0, 5.0), (6, 7, 6.0, 7.0)]
    """

    max_buckets: int = 480
    width: int = 1
    num_values: int = 0
    _buckets: dict[int, Bucket] = field(default_factory=dict)

    def add(self, step: int, value: float) -> None:
        """Add a value; memory stays bounded whatever the number of steps."""
        self.num_values += 1
        key = step // self.width
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = Bucket(step, step)
        bucket.add(step, value)
        while len(self._buckets) > self.max_buckets:
            self._halve()

    def buckets(self) -> list[Bucket]:
        """Return the stretches in order of step."""
        return [self._buckets[key] for key in sorted(self._buckets)]

    def folded(self, max_buckets: int) -> list[Bucket]:
        """Return the stretches in order of step, neighbours merged until few enough."""
        coarse = Series(max_buckets=max_buckets, width=self.width)
        coarse._buckets = {key: replace(bucket) for key, bucket in self._buckets.items()}
        while len(coarse._buckets) > max_buckets:
            coarse._halve()
        return coarse.buckets()

    def _halve(self) -> None:
        self.width *= 2
        merged: dict[int, Bucket] = {}
        for key, bucket in self._buckets.items():
            target = merged.setdefault(key // 2, bucket)
            if target is not bucket:
                target.merge(bucket)
        self._buckets = merged

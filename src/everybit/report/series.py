"""A long series in few stretches: lowest, highest and mean kept, so that no spike is lost."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Steps cut into stretches of equal width, the same for every series of a page.

    Attributes:
        first: The first step of the first stretch.
        width: Steps of a stretch.
        size: Number of stretches.
    """

    first: int
    width: int
    size: int

    @classmethod
    def over(cls, steps: range, max_size: int) -> Grid:
        """Return the finest grid over `steps` that has at most `max_size` stretches.

        >>> Grid.over(range(0, 10_000), 4000)
        Grid(first=0, width=3, size=3334)
        """
        span = max(steps.stop - steps.start, 1)
        width = max(-(-span // max_size), 1)
        return cls(first=steps.start, width=width, size=-(-span // width))

    def place(self, step: int) -> int:
        """Return the stretch of a step; steps outside go to the nearest."""
        return min(max((step - self.first) // self.width, 0), self.size - 1)

    def steps(self, place: int) -> tuple[int, int]:
        """Return the first and the last step of a stretch."""
        start = self.first + place * self.width
        return start, start + self.width - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What is on record of some neighbouring steps: finite values, and how many are not."""

    first: int
    last: int
    low: float
    high: float
    mean: float
    count: int
    broken: int


class Series:
    """Values by step on a grid, taken in as they arrive.

    Args:
        grid: The stretches.
        watched: Steps whose values are kept as they are, whatever the grid: those of findings.

    >>> series = Series(Grid.over(range(8), 4))
    >>> for step in range(8):
    ...     series.add(step, float(step))
    >>> [(s.first, s.last, s.low, s.high, s.mean) for s in series.stretches()][:2]
    [(0, 1, 0.0, 1.0, 0.5), (2, 3, 2.0, 3.0, 2.5)]
    """

    __slots__ = (
        "_at",
        "_count",
        "_mean",
        "_pending",
        "_watched",
        "broken",
        "exact",
        "grid",
        "high",
        "low",
        "num_values",
    )

    def __init__(self, grid: Grid, watched: Collection[int] = ()) -> None:
        self.grid = grid
        self.low = array("d", [math.inf]) * grid.size
        self.high = array("d", [-math.inf]) * grid.size
        self.broken: dict[int, int] = {}
        self.exact: dict[int, float] = {}
        self.num_values = 0
        self._mean = array("d", [0.0]) * grid.size
        self._count = array("L", [0]) * grid.size
        self._watched = watched
        self._at = -1
        self._pending: list[float] = []

    def add(self, step: int, value: float) -> None:
        """Take in a value; it may be NaN or infinite."""
        self.put((step - self.grid.first) // self.grid.width, value)
        if step in self._watched:
            self.exact[step] = value

    def put(self, at: int, value: float) -> None:
        """Take in a value of a stretch, for a caller that has many of one step."""
        if at != self._at:
            self._fold()
            self._at = at
        self._pending.append(value)

    def count(self, place: int) -> int:
        """Return the number of finite values in a stretch."""
        self._fold()
        return self._count[place]

    def mean(self, place: int) -> float:
        """Return the mean of the finite values in a stretch, within low and high; NaN with none."""
        self._fold()
        if not self._count[place]:
            return math.nan
        return min(max(self._mean[place], self.low[place]), self.high[place])

    def stretches(self, max_size: int | None = None) -> list[Stretch]:
        """Return the stretches that hold values, in order of step.

        Args:
            max_size: Neighbours are merged until there are no more than this.
        """
        self._fold()
        each = 1 if max_size is None else max(-(-self.grid.size // max_size), 1)
        return [
            stretch
            for start in range(0, self.grid.size, each)
            if (stretch := self._merged(range(start, min(start + each, self.grid.size))))
        ]

    def _merged(self, places: range) -> Stretch | None:
        used = [at for at in places if self._count[at] or at in self.broken]
        if not used:
            return None
        finite = [at for at in used if self._count[at]]
        count = sum(self._count[at] for at in finite)
        low = min((self.low[at] for at in finite), default=math.nan)
        high = max((self.high[at] for at in finite), default=math.nan)
        mean = sum(self._mean[at] * (self._count[at] / count) for at in finite)
        return Stretch(
            first=self.grid.steps(used[0])[0],
            last=self.grid.steps(used[-1])[1],
            low=low,
            high=high,
            mean=min(max(mean, low), high) if finite else math.nan,
            count=count,
            broken=sum(self.broken.get(at, 0) for at in used),
        )

    def _fold(self) -> None:
        values = self._pending
        if not values:
            return
        self._pending = []
        self.num_values += len(values)
        at = min(max(self._at, 0), self.grid.size - 1)
        self._at = -1
        total = sum(values)
        if not math.isfinite(total):  # also where finite ones overflow
            finite = [value for value in values if math.isfinite(value)]
            if len(finite) < len(values):
                self.broken[at] = self.broken.get(at, 0) + len(values) - len(finite)
            if not finite:
                return
            values = finite
            total = sum(values)
        count = self._count[at]
        self._count[at] = both = count + len(values)
        # Shares, not sums: the sum of huge values is not finite, their mean is.
        mean = total / len(values) if math.isfinite(total) else sum(v / len(values) for v in values)
        self._mean[at] = (
            mean if not count else self._mean[at] * (count / both) + mean * (len(values) / both)
        )
        self.low[at] = min(self.low[at], min(values))
        self.high[at] = max(self.high[at], max(values))

    def __iter__(self) -> Iterator[Stretch]:
        return iter(self.stretches())

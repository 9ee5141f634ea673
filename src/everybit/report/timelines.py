"""The timelines of a run: which quantities, which lines, on which steps; gathered in one pass."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from everybit.report.series import Grid, Series

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from everybit.ledger import LogReader
    from everybit.ledger.facts import StepFacts

#: What is drawn, in the order of the page. Other scalars of a step are left to trackers.
QUANTITIES: Final = (
    "loss",
    "grad_norm",
    "weight_norm",
    "update_norm",
    "scale",
    "lr",
    "guard",
    "distance",
)
#: Numbers that a page holds at most: what it weighs and how fast it opens follow from that.
MAX_NUMBERS: Final = 120_000
#: Stretches at least, however many lines there are.
_MIN_STRETCHES: Final = 240
#: More lines than this (a line a rank and attempt) are drawn as one band over all ranks.
MAX_LINES: Final = 8
#: Steps of findings that keep their exact values.
MAX_WATCHED: Final = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class LineKey:
    """A line: a rank's attempt, or with `rank` None all ranks of that attempt; or one by name."""

    rank: int | None
    attempt: int
    older: bool = False
    name: str = ""


@dataclass(slots=True, kw_only=True)
class Timelines:
    """All lines of all quantities on one grid.

    Attributes:
        grid: The stretches of steps that all of them share.
        watched: Steps of findings: their values are kept as they are.
        lines: Series by line and quantity, in order of rank and attempt.
        merged: Number of logs that the one line stands for; 1 where each log has its own.
        resumed: Whether any of them is of a second attempt.
    """

    grid: Grid
    watched: Collection[int] = ()
    merged: int = 1
    resumed: bool = False
    lines: dict[LineKey, dict[str, Series]] = field(default_factory=dict)

    def of(self, log: LogReader, *, older: bool) -> dict[str, Series]:
        """Return the series that a log's values go to."""
        rank = log.rank if self.merged == 1 else None
        attempt = log.attempt if self.merged == 1 else 0
        return self.lines.setdefault(
            LineKey(rank=rank, attempt=attempt, older=older and rank is not None), {}
        )

    def take(self, lines: dict[str, Series], record: StepFacts) -> None:
        """Add one step to a log's series."""
        step, grid = record.step, self.grid
        at = (step - grid.first) // grid.width
        for name, value in self._values(record):
            series = lines.get(name)
            if series is None:
                series = lines[name] = Series(grid, self.watched)
            series.put(at, value)
            if step in self.watched:
                series.exact[step] = value

    def _values(self, record: StepFacts) -> list[tuple[str, float]]:
        values = [("loss", loss) for loss in record.losses]
        values += [pair for pair in record.scalars.items() if pair[0] in _SCALARS]
        if record.skipped:
            # The gradients of an update that a GradScaler skipped are infinite: normal, no gap.
            values = [v for v in values if v[0] != "grad_norm" or math.isfinite(v[1])]
        whole, part = record.duration_s, record.guard_s
        if whole > 0 and math.isfinite(whole) and math.isfinite(part):
            values.append(("guard", 100 * part / whole))
        return values

    def quantities(self) -> list[str]:
        """Return the quantities that have any value on record, in the order of the page."""
        return [name for name in QUANTITIES if any(name in held for held in self.lines.values())]

    def series(self, quantity: str) -> list[tuple[LineKey, Series]]:
        """Return the lines of a quantity."""
        return [(key, held[quantity]) for key, held in self.lines.items() if quantity in held]


_SCALARS: Final = frozenset(QUANTITIES) - {"loss", "guard", "distance"}


def plan_timelines(logs: Sequence[LogReader], watched: Iterable[int] = ()) -> Timelines:
    """Choose the grid and the lines for some logs, before their steps are read.

    Args:
        logs: All logs of a run.
        watched: Steps of findings, the gravest first.
    """
    ranges = [log.step_range for log in logs if log.num_steps]
    steps = range(min(r.start for r in ranges), max(r.stop for r in ranges)) if ranges else range(1)
    merged = len(ranges) if len(ranges) > MAX_LINES else 1
    num_lines = 1 if merged > 1 or not ranges else len(ranges)
    numbers = MAX_NUMBERS // (num_lines * len(QUANTITIES))
    size = numbers
    if len(steps) > numbers or merged > 1:
        size = numbers // 3  # low, mean and high
    return Timelines(
        grid=Grid.over(steps, max(size, _MIN_STRETCHES)),
        watched=frozenset(list(dict.fromkeys(watched))[:MAX_WATCHED]),
        merged=merged,
        resumed=len({log.rank for log in logs}) < len(logs),
    )

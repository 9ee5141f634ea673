"""NUM509: small jumps of the loss at a regular period."""

from __future__ import annotations

import math
import statistics
from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.detect.place import place_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.finding import Finding
    from everybit.core.numbers import StepNumbers

#: Steps looked at.
_WINDOW: Final = 256
#: Jumps in a row at one period.
_NUM_JUMPS: Final = 8
#: How far above its neighbours a jump is, in robust spreads of such differences.
_FAR: Final = 4.0
#: The jumps are alike: largest to smallest.
_ALIKE: Final = 3.0
#: Correlation of the losses between the jumps one period apart: the data repeat themselves.
_REPEATS: Final = 0.4


@dataclass(slots=True)
class Jitter:
    """The last losses of one optimizer's steps, and the jumps among them."""

    losses: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    jumps: deque[int] = field(default_factory=lambda: deque(maxlen=_NUM_JUMPS))
    sizes: deque[float] = field(default_factory=lambda: deque(maxlen=_NUM_JUMPS))
    differences: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    num_seen: int = 0
    told: bool = False

    def judge(self, numbers: StepNumbers) -> Finding | None:
        """Return a finding once jumps have come at a regular period often enough."""
        loss = numbers.loss
        if not math.isfinite(loss):
            return None
        self.losses.append(loss)
        self.num_seen += 1
        if len(self.losses) < 3:
            return None
        before, middle, after = list(self.losses)[-3:]
        difference = middle - max(before, after)
        usual = (
            statistics.median(map(abs, self.differences)) if len(self.differences) >= 32 else 0.0
        )
        self.differences.append(difference)
        if not usual or difference < _FAR * 1.4826 * usual:
            return None
        self.jumps.append(self.num_seen - 1)
        self.sizes.append(difference)
        return self._regular(numbers)

    def clear(self) -> None:
        """Begin a new phase."""
        self.losses.clear()
        self.jumps.clear()
        self.sizes.clear()
        self.differences.clear()
        self.num_seen = 0
        self.told = False

    def _regular(self, numbers: StepNumbers) -> Finding | None:
        jumps = list(self.jumps)
        gaps = {b - a for a, b in pairwise(jumps)}
        if self.told or len(jumps) < _NUM_JUMPS or len(gaps) != 1:
            return None
        (period,) = gaps
        if period < 3 or max(self.sizes) > _ALIKE * min(self.sizes):
            return None
        alike = _repeat(list(self.losses), period, self.num_seen, jumps[-1])
        if alike > _REPEATS:
            return None
        self.told = True
        size = statistics.median(self.sizes)
        return rule("NUM509").finding(
            f"the loss jumps by about {size:.3g} every {period} steps, {len(jumps)} times in a row "
            f"up to step {numbers.step - 1}",
            where=place_of(numbers, Link.LOSS, step=numbers.step - 1),
            evidence={
                "sensor": True,
                "period": period,
                "num_jumps": len(jumps),
                "size": size,
                "correlation_between": round(alike, 3),
            },
        )


def _repeat(losses: Sequence[float], period: int, num_seen: int, jump: int) -> float:
    """Return the correlation, one period apart, of the changes of loss away from the jumps."""
    first = num_seen - len(losses)  # Ordinal (from 0) of the first loss that is kept.
    changes = {
        first + index: losses[index] - losses[index - 1]
        for index in range(1, len(losses))
        if (first + index + 1 - jump) % period not in (0, 1)
    }
    pairs = [(changes[at], changes[at + period]) for at in changes if at + period in changes]
    if len(pairs) < 8:
        return 0.0
    try:
        return statistics.correlation([a for a, _ in pairs], [b for _, b in pairs])
    except statistics.StatisticsError:
        return 0.0

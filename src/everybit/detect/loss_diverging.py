"""NUM511: the loss grows without bound."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.detect.place import place_of

if TYPE_CHECKING:
    from everybit.core.finding import Finding
    from everybit.core.numbers import StepNumbers

#: Times the level that the run began at.
TIMES: Final = 10.0
#: The same with several optimizers, whose losses work against each other (a GAN).
TIMES_ADVERSARIAL: Final = 100.0
#: Steps in a row, each above the limit.
_IN_A_ROW: Final = 3
#: Losses at the beginning that set the level.
_START: Final = 8
#: How far the weights have gone at least, of their own length, while the loss rose from that level:
#: below, what is fed grows and the model does not diverge.
_MOVED: Final = 0.05


@dataclass(slots=True)
class Divergence:
    """The level one optimizer's loss began at, and how long it has been far above."""

    start: list[float] = field(default_factory=list)
    above: list[tuple[int, float]] = field(default_factory=list)
    last: float = math.nan
    moved: float = 0.0

    def judge(
        self,
        numbers: StepNumbers,
        *,
        adversarial: bool,
        rate_rose_at: int | None,
        spiked: bool = False,
    ) -> Finding | None:
        """Return a finding where the loss has left the level it began at, and goes on rising.

        Args:
            numbers: The step.
            adversarial: Several optimizers take turns.
            rate_rose_at: Step at which a learning rate jumped up lately, None where none did.
            spiked: A loss or gradient out of its band was told last: it need not come of updates.
        """
        loss = numbers.loss
        if not math.isfinite(loss):
            return None
        before, self.last = self.last, loss
        # The update of this step comes behind its loss.
        way, self.moved = self.moved, self.moved + _way(numbers)
        # What rises from the very first step on must not set the level itself.
        early = len(self.start) < _START
        if early and (len(self.start) < 2 or loss <= 2 * max(self.start)):
            self.start.append(abs(loss))
        level = max(self.start)
        if loss <= level:
            self.moved = _way(numbers)
        limit = (TIMES_ADVERSARIAL if adversarial else TIMES) * level
        if level <= 0 or loss <= limit:
            self.above = []
            return None
        if self.above and loss < 0.5 * before:
            self.above = []
        self.above.append((numbers.step, loss))
        if len(self.above) < _IN_A_ROW or loss < self.above[0][1]:
            return None
        if way < _MOVED and not spiked:
            return None
        first = self.above[0][0]
        cause = f"; a learning rate jumped up at step {rate_rose_at}" if rate_rose_at else ""
        return rule("NUM511").finding(
            f"the loss is {loss:.6g} at step {numbers.step}, {loss / level:.3g} times what it was "
            f"at first, and above {limit:.3g} since step {first}{cause}",
            where=place_of(numbers, Link.LOSS, step=first),
            evidence={
                "sensor": True,
                "first_step": first,
                "loss": loss,
                "level_at_first": level,
                "weights_moved": way if math.isfinite(way) else None,
                "lr": list(numbers.rates),
                "rate_rose_at": rate_rose_at,
            },
        )

    def clear(self) -> None:
        """Begin a new phase."""
        self.start.clear()
        self.above.clear()
        self.last = math.nan
        self.moved = 0.0


def _way(numbers: StepNumbers) -> float:
    """Return how far an update moved the weights, of their own length; inf where it is unknown."""
    way = numbers.update_norm / numbers.weight_norm if numbers.weight_norm else math.inf
    return way if math.isfinite(way) else math.inf

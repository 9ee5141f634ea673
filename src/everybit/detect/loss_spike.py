"""NUM503: the loss is far outside its own recent band."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.detect.band import Band, Place
from everybit.detect.place import place_of
from everybit.detect.spikes import LOSS_LOG_Z, why_loss_spike

if TYPE_CHECKING:
    from everybit.core.finding import Finding
    from everybit.core.numbers import StepNumbers


@dataclass(slots=True)
class LossBand:
    """The band of the loss of one optimizer's steps."""

    band: Band = field(default_factory=Band)

    def judge(self, numbers: StepNumbers) -> Finding | None:
        """Return a finding where the loss is a spike; the loss joins the band either way."""
        loss = numbers.loss
        if not math.isfinite(loss):
            return None
        place, why = self._look(loss)
        self.band.add(loss)
        if not why or place is None:
            return None
        return rule("NUM503").finding(
            f"the loss of step {numbers.step} is {loss:.6g}, the median of the last "
            f"{place.count} {place.median:.6g}: {why}",
            where=place_of(numbers, Link.LOSS),
            evidence={
                "sensor": True,
                **place.to_json(),
                "gradient_norm": _plain(numbers.gradient_norm),
                "lr": list(numbers.rates),
            },
        )

    def doubts(self, loss: float) -> bool:
        """Whether a loss would be a spike; nothing is added."""
        return math.isfinite(loss) and bool(self._look(loss)[1])

    def _look(self, loss: float) -> tuple[Place | None, str]:
        place = self.band.place(loss, floor=1e-3 * self.band.start)
        why = why_loss_spike(place, start=self.band.start) if place else ""
        if why and self.band.log_z(loss) < LOSS_LOG_Z:
            why = ""
        return place, why

    def clear(self) -> None:
        """Begin a new phase."""
        self.band.clear()


def _plain(number: float) -> float | str:
    return number if math.isfinite(number) else str(number)

"""NUM503, at a resume: the first losses against the band from before it, on both sides.

A spike detector forgets its band when a checkpoint is loaded, and never looks below it. Here the
band comes with the checkpoint. A loss that drops is as telling as one that jumps: the model is
shown what it has seen, or is measured on something else.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Location
from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.detect.band import ENOUGH, WINDOW, Band
from everybit.detect.spikes import LOSS_Z

if TYPE_CHECKING:
    from collections.abc import Iterable

    from everybit.core.finding import Finding

#: Steps after the resume that are compared with the band before it.
STEPS: Final = 4
#: As far out as the furthest of the band is nothing; so many times as far is.
_BEYOND: Final = 2.0


@dataclass(slots=True)
class ResumeBand:
    """The losses of one optimizer's steps before a resume, and the first ones after it.

    Attributes:
        recent: The last losses, for the next checkpoint.
    """

    recent: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    _before: Band | None = None
    _num_after: int = 0

    def resume(self, losses: Iterable[float]) -> None:
        """Take the losses that a checkpoint holds: the next ones are the first after the resume."""
        self._before, self._num_after = Band(), 0
        self.recent.clear()
        for loss in losses:
            if math.isfinite(loss):
                self._before.add(loss)
                self.recent.append(loss)

    def judge(self, loss: float, *, step: int, optimizer: str, rank: int) -> Finding | None:
        """Return a finding where a loss is far from the band, above or below; it joins it.

        Args:
            loss: Mean of the losses of the step.
            step: The step.
            optimizer: Name of its optimizer, "" with none.
            rank: Rank of this process.
        """
        if not math.isfinite(loss):
            return None
        before, self._num_after = self._before, self._num_after + 1
        finding = None
        if before is not None and len(before.values) >= ENOUGH:
            finding = self._look(before, loss, step, optimizer, rank)
        if finding is not None or self._num_after >= STEPS:
            self._before = None
        self.recent.append(loss)
        return finding

    def _look(
        self, band: Band, loss: float, step: int, optimizer: str, rank: int
    ) -> Finding | None:
        place = band.place(loss, floor=1e-3 * band.start)
        if place is None:
            return None
        far = loss - place.median
        edge = max(band.values) if far > 0 else min(band.values)
        if abs(place.z) <= LOSS_Z or abs(far) <= _BEYOND * abs(edge - place.median):
            return None
        how = "above" if far > 0 else "below"
        why = "" if far > 0 else ": samples that were seen before, or a measure that is another one"
        return rule("NUM503").finding(
            f"the loss of step {step}, the {_ordinal(self._num_after)} after a resume, is "
            f"{loss:.6g}, far {how} the {place.count} before it (median {place.median:.6g}){why}",
            where=Location(step=step, link=Link.LOSS, optimizer=optimizer or None, rank=rank),
            evidence={"sensor": True, "resume": True, "side": how, **place.to_json()},
            remedy="Compare with a run that was not resumed (`everybit diff`): which link the "
            "checkpoint left out shows there.",
        )


def _ordinal(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")

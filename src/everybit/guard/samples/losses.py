"""Losses of the last steps, carried by a checkpoint: what follows a resume is held against them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from everybit.detect.loss_after_resume import ResumeBand
from everybit.guard.check import Check

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from everybit.core.finding import Finding
    from everybit.guard.members import Members
    from everybit.guard.moment import Moment


class LossMemory(Check):
    """Remembers each optimizer's last losses, and judges the first ones after a resume.

    Args:
        losses: Returns those of the step that has ended.
        members: Knows the optimizers' names.
        rank: Rank of this process.
    """

    def __init__(
        self, losses: Callable[[], Sequence[float]], members: Members, *, rank: int
    ) -> None:
        self._losses = losses
        self._members = members
        self._rank = rank
        self._bands: dict[str, ResumeBand] = {}

    def finish(self, moment: Moment) -> Sequence[Finding]:
        """Judge the step's loss where it follows a resume."""
        losses = [loss for loss in self._losses() if not math.isnan(loss)]
        if moment.optimizer is None or not losses:
            return ()
        name = self._members.name_of(moment.optimizer) or ""
        band = self._bands.setdefault(name, ResumeBand())
        loss = sum(losses) / len(losses)
        found = band.judge(loss, step=moment.step, optimizer=name, rank=self._rank)
        return [] if found is None else [found]

    def phase(self, name: str) -> None:
        """Forget what was usual before."""
        self._bands.clear()

    def save(self) -> dict[str, list[float]]:
        """Return the last losses by optimizer."""
        return {name: list(band.recent) for name, band in self._bands.items()}

    def load(self, losses: dict[str, Any]) -> None:
        """Take those of a checkpoint."""
        self._bands = {name: ResumeBand() for name in losses}
        for name, band in self._bands.items():
            band.resume(losses[name])

"""What a check is: a question about the chain, asked at the boundaries of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everybit.core.verdict import Coverage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.core.boundary import Boundary
    from everybit.core.finding import Finding
    from everybit.core.samples import EpochEnd
    from everybit.guard.moment import Moment
    from everybit.guard.samples.delivery import Delivery, EpochStart


class Check:
    """A question about the chain; a check overrides what it needs, and imports no other check.

    Everything here is called within the Guard's fence: an error ends the checks, not the job.
    """

    def __call__(self, boundary: Boundary, moment: Moment) -> Sequence[Finding]:
        """Look at a boundary of a checked step; return what is wrong, before it is used further."""
        return ()

    def finish(self, moment: Moment) -> Sequence[Finding]:
        """Judge what was asked of the readout: the step has ended, the values are on the host."""
        return ()

    def note(self, findings: Sequence[Finding]) -> None:
        """Take note of what another check has found: one damage is one finding."""

    def at_end(self, step: int) -> Sequence[Finding]:
        """Test what can be tested before a save, and when the Guard is left.

        Args:
            step: Updates finished or skipped so far.
        """
        return ()

    def epoch_start(self, start: EpochStart) -> Sequence[Finding]:
        """Look at a data set before a pass over it begins and workers are made."""
        return ()

    def deliver(self, delivery: Delivery) -> Sequence[Finding]:
        """Judge a batch that a loader delivers, before the loop gets it."""
        return ()

    def epoch_end(self, end: EpochEnd) -> Sequence[Finding]:
        """Judge a pass over a loader that is over."""
        return ()

    def left(self) -> Sequence[Finding]:
        """Return what is held back still: the Guard is left, by an error perhaps."""
        return ()

    def observed(self) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Return what else of the finished step is worth keeping: `(kind, JSON-ready facts)`."""
        return ()

    def scalars(self) -> Mapping[str, float]:
        """Return the numbers of the step that `finish` was called for."""
        return {}

    def phase(self, name: str) -> None:
        """Begin a new phase: what was usual before is no measure any more."""

    def hold(self) -> None:
        """Take note that `guard.step` begins a step which it may compute several times."""

    def put_back(self) -> None:
        """Forget what came since `hold`: the state is what it was then, the step begins anew."""

    def let_go(self) -> None:
        """Take note that the step is done: what came since the last of these stays."""

    def coverage(self) -> Coverage:
        """Return what was checked and what was not."""
        return Coverage()

    def close(self) -> None:
        """Leave what was hooked as it was: the Guard is left, however the run ends."""

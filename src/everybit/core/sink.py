"""What listens to a run while it goes on: trackers, webhooks, callbacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from everybit.core.finding import Finding
    from everybit.core.observation import StepRecord
    from everybit.core.verdict import Verdict


class Sink(Protocol):
    """Is told every finding and every recorded step, in order, then the verdict, once."""

    def step(self, record: StepRecord) -> None:
        """Take a finished or skipped update."""

    def finding(self, finding: Finding) -> None:
        """Take a finding."""

    def close(self, verdict: Verdict) -> None:
        """Take the verdict and finish, within a few seconds."""

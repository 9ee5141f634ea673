"""What happens to findings: they are recorded, told to whoever listens, and acted on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.core.verdict import Coverage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.boundary import Boundary
    from everybit.core.finding import Finding
    from everybit.guard.journal import Journal
    from everybit.guard.policy import Policy
    from everybit.guard.together import Together


class Response:
    """The one place that gets every finding.

    Args:
        policy: What is done about findings.
        together: Does it instead, where all ranks have to act at one point; None where not.
    """

    def __init__(self, policy: Policy, together: Together | None = None) -> None:
        self.journal: Journal | None = None
        self._policy = policy
        self._together = together

    def tell(self, findings: Sequence[Finding]) -> None:
        """Put findings on record, and tell who listens. Called within the fence."""
        assert self.journal is not None
        for finding in findings:
            self.journal.finding(finding)

    def act(self, boundary: Boundary | None, findings: Sequence[Finding], step: int) -> None:
        """Do what the policy says; called at every boundary of a checked step, outside the fence.

        Args:
            boundary: Where the step is; None at a save, and at the end of the run.
            findings: What was found there, often nothing.
            step: Updates finished or skipped so far.

        Raises:
            StoppedError: The policy ends the loop.
        """
        if self._together is not None:
            self._together(boundary, findings, step)
        elif findings:
            self._policy(findings)

    def finish(self) -> None:
        """Do what is left to be done as the loop has come to its end; raises as `act` does."""
        if self._together is not None:
            self._together.finish()

    def close(self) -> Coverage:
        """End it, however the run ends; returns what the ranks agreed on."""
        if self._together is None:
            return Coverage()
        self._together.abandon()
        return self._together.coverage()

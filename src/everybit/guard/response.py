"""What happens to findings: they are recorded, told to whoever listens, and acted on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.boundary import Boundary
    from everybit.core.finding import Finding
    from everybit.guard.journal import Journal
    from everybit.guard.policy import Policy


class Response:
    """The one place that gets every finding.

    Args:
        policy: What is done about findings.
    """

    def __init__(self, policy: Policy) -> None:
        self.journal: Journal | None = None
        self._policy = policy

    def tell(self, findings: Sequence[Finding]) -> None:
        """Put findings on record, and tell who listens. Called within the fence."""
        assert self.journal is not None
        for finding in findings:
            self.journal.finding(finding)

    def act(self, boundary: Boundary | None, findings: Sequence[Finding]) -> None:
        """Do what the policy says; called at every boundary of a checked step, outside the fence.

        Args:
            boundary: Where the step is; None at a save, and at the end of the run.
            findings: What was found there, often nothing.

        Raises:
            StoppedError: The policy ends the loop.
        """
        if findings:
            self._policy(findings)

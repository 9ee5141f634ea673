"""What happens to findings: they are recorded, told to whoever listens, and acted on."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from everybit.core.config import OnFinding
from everybit.core.errors import StoppedError
from everybit.core.finding import Severity
from everybit.core.verdict import Coverage
from everybit.guard.journal import Journal
from everybit.guard.pausing import Ending, Pauser
from everybit.guard.policy import LOGGER, policy_for, warn
from everybit.guard.together import acting_together
from everybit.sinks import check_sinks, open_sinks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from everybit.core.boundary import Boundary
    from everybit.core.config import Config
    from everybit.core.finding import Finding
    from everybit.core.sink import Sink
    from everybit.core.verdict import Verdict
    from everybit.guard.scene import Scenes
    from everybit.ledger import RunWriter


class Response:
    """The one place that gets every finding.

    Args:
        config: Says what is done about findings, and who is told.
        scenes: Keep what is at hand.
        fence: Calls a function with arguments; where that fails, the job does not.
        callbacks: Functions of the user's that are called with each finding.

    Raises:
        UsageError: A tracker is none, or is not installed.
    """

    def __init__(
        self,
        config: Config,
        scenes: Scenes,
        fence: Callable[..., Any],
        callbacks: Sequence[Callable[[Finding], object]],
    ) -> None:
        check_sinks(config)
        self._config = config
        self._scenes = scenes
        self._callbacks = callbacks
        self._policy = policy_for(config.on_finding)
        self._together = acting_together(config, self._carry_out, fence)
        self._sinks: list[Sink] = []
        self._journal: Journal | None = None
        self._pauser: Pauser | None = None
        self._incident = ""
        self._postpones = False
        self._postponed: list[Finding] = []

    def open(self, writer: RunWriter) -> Journal:
        """Begin, in an open run; returns its journal."""
        config = self._config
        self._sinks = open_sinks(config, writer.path, writer.rank, callbacks=self._callbacks)
        self._scenes.open(writer)
        self._journal = Journal(writer, self._sinks)
        self._pauser = Pauser(
            writer.path,
            rank=writer.rank,
            attempt=writer.attempt,
            timeout_s=config.pause_timeout_s,
            tell=lambda line: LOGGER.warning("everybit: %s", line),
            highest=self._together.highest if self._together else None,
        )
        return self._journal

    def tell(self, findings: Sequence[Finding], step: int) -> None:
        """Put findings on record, and keep their scene. Called within the fence.

        Args:
            findings: What was found at one moment, often nothing.
            step: Updates finished or skipped so far.
        """
        self.record(findings)
        self.keep(findings, step)

    def record(self, findings: Sequence[Finding]) -> None:
        """Put findings on record."""
        assert self._journal is not None
        for finding in findings:
            self._journal.finding(finding)

    def keep(self, findings: Sequence[Finding], step: int) -> None:
        """Keep the scene of findings."""
        assert self._journal is not None
        if findings:
            self._incident = self._scenes.keep(findings, step)
            if self._incident:
                ids = [finding.id for finding in findings]
                self._journal.observe("incident", step, folder=self._incident, findings=ids)

    def act(self, boundary: Boundary | None, findings: Sequence[Finding], step: int) -> None:
        """Tell who listens, and do what the policy says.

        Called at every boundary of a checked step, outside the fence.

        Args:
            boundary: Where the step is; None at a save, and at the end of the run.
            findings: What was found there, often nothing.
            step: Updates finished or skipped so far.

        Raises:
            StoppedError: The policy ends the loop.
        """
        for finding in findings:
            for sink in self._sinks:
                sink.finding(finding)
        notes = [finding for finding in findings if finding.severity is Severity.NOTE]
        if notes:  # Nothing is broken: there is nothing to stop or to pause for.
            findings = [finding for finding in findings if finding not in notes]
            if self._config.on_finding is not OnFinding.RECORD:
                warn(notes)
        if self._postpones:
            self._postponed += findings
            return
        if self._postponed:
            findings, self._postponed = [*self._postponed, *findings], []
        if self._together is not None:
            self._together(boundary, findings, step)
        elif findings:
            self._policy(findings)

    @contextmanager
    def postponed(self) -> Iterator[None]:
        """Act on what is found meanwhile at the next boundary: here nothing may wait or raise."""
        before, self._postpones = self._postpones, True
        try:
            yield
        finally:
            self._postpones = before

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

    def say(self, verdict: Verdict) -> None:
        """Tell who listens how it ended; takes a few seconds at most."""
        for sink in self._sinks:
            sink.close(verdict)
        self._sinks.clear()

    def _carry_out(self, findings: Sequence[Finding], step: int) -> None:
        """Stop or wait; with no findings where another rank has some."""
        if self._config.on_finding is not OnFinding.PAUSE:
            self._policy(findings)
            return
        assert self._journal is not None
        assert self._pauser is not None
        warn(findings)
        incident = self._incident if findings else ""
        waited = self._pauser(findings, step=step, incident=incident)
        self._journal.paused(step, seconds=waited.seconds, ending=waited.ending.name.lower())
        if waited.ending is Ending.STOPPED:
            raise StoppedError(
                f"{findings[0].rule} {findings[0].message}"
                if findings
                else "another rank has a finding",
                todo="the paused run was stopped as asked (`everybit release --stop`)",
            )

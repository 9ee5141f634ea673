"""The course of a watched loop: at each boundary the checks, then the record, then the policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from everybit.core.boundary import Boundary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.config import Config
    from everybit.core.finding import Finding
    from everybit.core.samples import EpochEnd
    from everybit.guard.checks import Checks
    from everybit.guard.fence import Fence
    from everybit.guard.journal import Journal
    from everybit.guard.moment import Moment
    from everybit.guard.response import Response
    from everybit.guard.samples.delivery import Delivery, EpochStart
    from everybit.guard.watch import Watch


class Holder(Protocol):
    """Takes what a computation of a step gives while it is not settled which one counts."""

    def see(self, boundary: Boundary, moment: Moment) -> None: ...  # noqa: D102
    def found(self, findings: Sequence[Finding]) -> None: ...  # noqa: D102
    def step(self, step: int, facts: dict[str, Any]) -> None: ...  # noqa: D102


class Course:
    """Carries out at each boundary what is to be done there.

    Args:
        config: Settings of the Guard.
        watch: What is watched.
        checks: The checks.
        response: Gets the findings.
        fence: Calls a function with arguments; where that fails, the job does not.

    Attributes:
        journal: The record; None until the Guard is entered.
        holder: Takes findings and steps while a step may be computed again; else None.
    """

    def __init__(
        self, config: Config, watch: Watch, checks: Checks, response: Response, fence: Fence
    ) -> None:
        self.journal: Journal | None = None
        self.holder: Holder | None = None
        self._config = config
        self._watch = watch
        self._checks = checks
        self._response = response
        self._fence = fence
        self._saved_at = -1

    @property
    def step(self) -> int:
        """Updates finished or skipped so far."""
        return self._watch.boundaries.step

    @property
    def record(self) -> Journal:
        """The record of a Guard that was entered."""
        assert self.journal is not None
        return self.journal

    def reach(self, boundary: Boundary, moment: Moment) -> None:
        """Carry out the checks at a boundary, then the policy."""
        if not self.is_checked(moment.step):
            if boundary is Boundary.STEP_END and self.is_checked(moment.step + 1):
                self._fence(self._watch.state.mark_all)
            return
        self._response.act(boundary, self._fence(self._look, boundary, moment) or (), moment.step)

    def is_checked(self, step: int) -> bool:
        """Whether a step is one of those that are checked."""
        return step % self._config.every == 0

    def before_save(self, whole: bool) -> None:
        """Test what goes into a state_dict or file; for parts of a model once a step."""
        if whole or self._saved_at != self.step:
            self._saved_at = self.step
            self.test()

    def before_loss(self) -> None:
        """Test what the program lets go of: this comes from the garbage collector."""
        with self._response.postponed():
            self.test()

    def test(self) -> None:
        """Test all carried state, then the policy, where nothing is under way."""
        with self._watch.boundaries.lock:
            if not self._watch.boundaries.inside and not self._fence.is_inside:
                self._response.act(None, self._fence(self._final_test) or (), self.step)

    def tested(self) -> list[Finding]:
        """Test all carried state and return what is found. Called within the fence."""
        if not self._watch.complete or not self.is_checked(self.step):
            return []
        return self._checks.at_end(self.step)

    def tell(self, findings: Sequence[Finding], step: int) -> Sequence[Finding]:
        """Put findings on record, or hand them to who holds them; returns those to act on."""
        if self.holder is None:
            self._response.tell(findings, step)
            return findings
        self._response.keep(findings, step)
        self.holder.found(findings)
        return ()

    @property
    def is_open(self) -> bool:
        """Whether the Guard was entered."""
        return self.journal is not None

    def start_epoch(self, start: EpochStart) -> Sequence[Finding]:
        """Have a data set looked at before a pass over it begins. Called within the fence."""
        return self.tell(self._checks.epoch_start(start), start.step)

    def deliver(self, delivery: Delivery) -> Sequence[Finding]:
        """Put a delivered batch on record and have it judged. Called within the fence."""
        self.record.samples(delivery.record)
        return self.tell(self._checks.deliver(delivery), delivery.step)

    def end_epoch(self, end: EpochEnd) -> Sequence[Finding]:
        """Have a pass judged that is over. Called within the fence."""
        return self.tell(self._checks.epoch_end(end), end.step)

    def act(self, findings: Sequence[Finding]) -> None:
        """Do what the policy says about what was found between two steps."""
        self._response.act(None, findings, self.step)

    def begin_phase(self, name: str) -> None:
        """Begin a new phase in every check, and on record."""
        self._checks.phase(name)
        self.record.observe("phase", self.step, name=name)

    def keep_observed(self, step: int) -> None:
        """Put on record what checks have noted since. Called within the fence."""
        for kind, data in self._checks.observed():
            self.record.observe(kind, step, **data)

    def _final_test(self) -> Sequence[Finding]:
        return self.tell(self.tested(), self.step)

    def _look(self, boundary: Boundary, moment: Moment) -> Sequence[Finding]:
        if boundary in (Boundary.FORWARD_START, Boundary.STEP_START) and self._watch.mark():
            self.record.initial(moment.step, self._checks.record.initial())
        findings = self.tell(self._checks.look(boundary, moment), moment.step)
        if self.holder is not None:  # Behind the checks: it sees what they have healed.
            self.holder.see(boundary, moment)
        for changed in self._checks.configuration.changes():
            self.record.observe("configuration", moment.step, **changed)
        if boundary is Boundary.STEP_END:
            self.keep_observed(moment.step)
            facts = self._facts(moment)
            if self.holder is None:
                self.record.step(moment.step, **facts)
            else:
                self.holder.step(moment.step, facts)
        return findings

    def _facts(self, moment: Moment) -> dict[str, Any]:
        gathered = self._checks.record.gathered
        return {
            "optimizer": self._watch.state.members.name_of(moment.optimizer) or "",
            "skipped": self._checks.skipped,
            "losses": gathered.losses,
            "tables": self._checks.tables(),
            "sums": self._checks.trace.sums,
            "scalars": self._checks.scalars(),
        }

"""When a policy acts: at once where this process is alone, else with all ranks at one point.

That point is the start of an update. What a rank found before then (when the model was called, or
before a save) is told at once and kept until then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everybit.core.boundary import Boundary
from everybit.core.config import OnFinding
from everybit.guard.agreement import Agreement
from everybit.guard.meeting import job_ranks
from everybit.guard.policy import LOGGER, warn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from everybit.core.config import Config
    from everybit.core.finding import Finding
    from everybit.core.verdict import Coverage
    from everybit.guard.agreement import Agreed

    #: What is found, on this rank; none where another rank found something. And the step.
    Act = Callable[[Sequence[Finding], int], None]

_ACT = 1


class Together:
    """Carries out, with all ranks, what a policy does that one rank alone must not do.

    Args:
        act: Stops the loop, or waits; called with this rank's findings, with none where another
            rank has some, and with the step.
        agreement: Of the ranks.
        fence: Calls a function with arguments; where that fails, the job does not.
    """

    def __init__(self, act: Act, agreement: Agreement, fence: Callable[..., Any]) -> None:
        self._act = act
        self._agreement = agreement
        self._fence = fence
        self._kept: list[Finding] = []
        self._step = 0
        self._over = False
        self._told = False

    def __call__(self, boundary: Boundary | None, findings: Sequence[Finding], step: int) -> None:
        """Take up findings, and act where it is time.

        Args:
            boundary: Where the step is; None at a save.
            findings: What was found there, often nothing.
            step: Updates finished or skipped so far.
        """
        self._step = step
        if job_ranks()[1] == 1:
            if findings:
                self._act(findings, self._step)
            return
        self._kept += findings
        agreed: Agreed | None = None
        if boundary is Boundary.STEP_START:
            agreed = self._fence(self._agreement.agree, self._wish, self._step)
            if agreed is None:
                self._give_up()
        if agreed is not None and agreed.known and agreed.value:
            kept, self._kept = self._kept, []
            self._act(kept, self._step)
            return
        warn(findings)
        if agreed is not None and self._kept and not self._told:
            self._told = True
            LOGGER.warning(
                "everybit: not acted on at step %d: the ranks could not agree, and a rank that acts"
                " alone would hang the others",
                self._step,
            )

    def highest(self, mine: int) -> int:
        """Return the highest number of all ranks, while they wait together.

        Where a rank is late that is 0, and where they can agree no more, this rank's own.
        """
        if job_ranks()[1] == 1:
            return mine
        before = self._agreement.num_agreed
        agreed: Agreed | None = self._fence(self._agreement.agree, mine, self._step)
        self._agreement.num_agreed = before  # It counts steps, and this is none.
        if agreed is not None and agreed.known:
            return agreed.value
        return mine if agreed is None or self._agreement.ended else 0

    def finish(self) -> None:
        """Act on what is still kept: the run ends here, on all ranks or on this one."""
        if self._over:
            return
        self._over = True
        wish = self._fence(self._agreement.leave, self._wish)
        if self._kept or wish:
            kept, self._kept = self._kept, []
            self._act(kept, self._step)

    def abandon(self) -> None:
        """Come to no more agreements: the run ends with an error, or a signal."""
        self._over = True
        self._agreement.part()

    def coverage(self) -> Coverage:
        """Return how often the ranks agreed, and when not."""
        return self._agreement.coverage()

    @property
    def _wish(self) -> int:
        return _ACT if self._kept else 0

    def _give_up(self) -> None:
        """Tell the other ranks that this one's Guard does nothing any more."""
        if not self._over:
            self._over = True
            try:
                self._agreement.leave(0)
            except Exception as error:
                LOGGER.debug("everybit: %s", error)


def acting_together(config: Config, act: Act, fence: Callable[..., Any]) -> Together | None:
    """Return how all ranks act at one point; None where the policy may act on one rank alone."""
    if config.on_finding not in (OnFinding.STOP, OnFinding.PAUSE):
        return None
    agreement = Agreement(f"{config.on_finding}, every {config.every}", config.patience_s)
    return Together(act, agreement, fence)

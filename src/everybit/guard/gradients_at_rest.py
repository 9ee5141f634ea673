"""The check on gradients at rest: the update uses what backward left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from everybit.core.boundary import Boundary
from everybit.core.verdict import Checked, Coverage, Skipped
from everybit.detect.at_rest import judge_at_rest
from everybit.guard.check import Check

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.damage import Damage
    from everybit.core.finding import Finding
    from everybit.guard.gradients import Gradients
    from everybit.guard.moment import Moment
    from everybit.guard.question import Question
    from everybit.guard.readout import Readout, Ticket

#: Boundaries at which gradients are about to be used.
_USES = (
    Boundary.BACKWARD_START,
    Boundary.REWRITE_START,
    Boundary.STEP_START,
    Boundary.CLOSURE_END,
)


class GradientCheck(Check):
    """Mark gradients when backward has ended, test them when they are next used.

    The next use is the update, what rewrites them on purpose (unscaling, clipping; they are
    marked again behind it), or the next backward pass, which adds to them.

    Args:
        gradients: Their marks.
        readout: Brings answers from accelerators at the end of the step.
        rank: Rank of this process.
        heal: Put the right bits back.
        patient: What an accelerator finds may be read when the step has ended.
    """

    def __init__(
        self, gradients: Gradients, readout: Readout, *, rank: int, heal: bool, patient: bool
    ) -> None:
        self._gradients = gradients
        self._readout = readout
        self._rank = rank
        self._heal = heal
        self._patient = patient
        self._open: list[tuple[Question, Ticket]] = []
        self._updates = 0
        self._in_company = False

    def __call__(self, boundary: Boundary, moment: Moment) -> Sequence[Finding]:
        """Return the damage found at this boundary."""
        if boundary in (Boundary.BACKWARD_END, Boundary.REWRITE_END):
            self._gradients.mark()
        elif boundary in _USES:
            if moment.alone and moment.gradients_alone:
                return self._test(moment)
            self._in_company = True
            self._gradients.drop()
        elif boundary is Boundary.STEP_END:
            self._updates += moment.optimizer is not None
            self._gradients.drop(moment.optimizer)
        return ()

    def finish(self, moment: Moment) -> Sequence[Finding]:
        """Judge what accelerators were asked: the update has used it."""
        found = []
        for question, ticket in self._open:
            flags = [bool(word) for word in ticket.words]
            found += self._gradients.judge(question, flags, heal=False)
        self._open = []
        return self._judged(found, moment.step, tainted=True)

    def put_back(self) -> None:
        """Let go of marks: the gradients have been put back to what they were."""
        self._gradients.drop()
        self._open = []

    def coverage(self) -> Coverage:
        """Return how many gradients were tested, and which were not."""
        checked = Checked(what="tests of a gradient at rest", count=self._gradients.num_tested)
        skipped = [
            Skipped(what=f"gradient of {label} at rest", why=why, promised=False)
            for label, why in sorted(self._gradients.skipped.items())
        ]
        if self._updates and not self._gradients.num_tested and not skipped:
            why = "the update ran within backward, or no gradient was there when it began"
            skipped.append(Skipped(what="gradients at rest", why=why, promised=False))
        if self._in_company:
            what, why = "gradients at rest, at some steps", "another thread was writing some"
            skipped.append(Skipped(what=what, why=why, promised=False))
        return Coverage(checked=(checked,), skipped=tuple(skipped))

    def _test(self, moment: Moment) -> list[Finding]:
        found, later = self._gradients.test(moment.optimizer, heal=self._heal, defer=self._patient)
        for question in later:
            assert isinstance(question.answer, torch.Tensor)
            values = list(question.answer.to(torch.int64).unbind())
            self._open.append((question, self._readout.ask(values)))
        return self._judged(found, moment.step, tainted=False)

    def _judged(self, found: list[Damage], step: int, *, tainted: bool) -> list[Finding]:
        return [
            judge_at_rest(damage, step=step, rank=self._rank, tainted=tainted) for damage in found
        ]

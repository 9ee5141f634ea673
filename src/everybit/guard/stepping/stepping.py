"""Whole steps, computed again: to test them, and to undo what went wrong in them.

A step is accepted once a computation of it has come to what an earlier one came to, bit for bit,
and nothing was found in it; the last computation counts, so that nothing has to be put back then.
Where nothing is to be tested and nothing is found, the first one counts. All ranks decide alike
before any of them computes again: their collectives would hang else.
"""

from __future__ import annotations

import contextlib
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from everybit.core.config import OnFinding
from everybit.core.errors import StoppedError
from everybit.core.verdict import Checked, Coverage, Skipped
from everybit.guard.agreement import Agreement
from everybit.guard.meeting import job_ranks
from everybit.guard.stepping.attempt import Attempt, is_damage
from everybit.guard.stepping.carried import Arguments, Carried, healed_from
from everybit.guard.stepping.count import StepCount
from everybit.guard.stepping.deciding import Wish, Witness
from everybit.guard.stepping.plan import Plan
from everybit.guard.stepping.settling import Settlement
from everybit.guard.stepping.trace import Trace, first_difference

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.core.config import Config
    from everybit.core.finding import Finding
    from everybit.guard.checks import Checks
    from everybit.guard.course import Course
    from everybit.guard.fence import Fence
    from everybit.guard.response import Response
    from everybit.guard.watch import Watch
    from everybit.probe.state import State


class Stepping:
    """Computes steps for `guard.step(fn)`.

    Args:
        config: Settings of the Guard.
        watch: What is watched.
        checks: The checks.
        response: Gets the findings.
        course: What is done at boundaries.
        fence: Calls a function with arguments; where that fails, the job does not.
        rank: Rank of this process.
    """

    def __init__(
        self,
        config: Config,
        watch: Watch,
        checks: Checks,
        response: Response,
        course: Course,
        fence: Fence,
        *,
        rank: int,
    ) -> None:
        self._config = config
        self._watch = watch
        self._checks = checks
        self._response = response
        self._course = course
        self._fence = fence
        self._rank = rank
        self._rewinds = config.on_finding is OnFinding.REWIND
        self._carried = Carried(watch.state.members)
        self._agreement: Agreement | None = None
        self._proven: State | None = None
        self._witness = Witness()
        self._num_steps = 0
        self._num_again = 0
        self._late = 0

    def carry(self, *items: Any) -> None:
        """Take up what a step changes beside modules and optimizers."""
        self._carried.add(*items)

    def count(self) -> StepCount:
        """Return how many updates are finished or skipped; called, it computes the next step."""
        return StepCount(self._course.step, self._compute)

    def leave(self) -> None:
        """Decide nothing more with other ranks."""
        if self._agreement is not None:
            self._fence(self._agreement.leave)

    def close(self) -> Coverage:
        """Return what was computed again, and what was not."""
        if self._agreement is not None:
            self._agreement.part()
        if not self._num_steps:
            if not self._rewinds:
                return Coverage()
            what = "steps computed again after a finding"
            why = "the batch is the loop's own: `guard.step(fn, batch)` computes a step again"
            return Coverage(skipped=(Skipped(what=what, why=why),))
        checked = [Checked(what="whole steps that repeated exactly", count=self._witness.num_exact)]
        if self._num_again:
            checked.append(Checked(what="steps computed again", count=self._num_again))
        skipped = []
        if self._witness.given_up:
            skipped.append(Skipped(what="replay of whole steps", why=self._witness.given_up))
        if self._late:
            why = "the ranks could not agree: a rank was late, or gone"
            skipped.append(Skipped(what=f"{self._late} steps computed again", why=why))
        coverage = Coverage(checked=tuple(checked), skipped=tuple(skipped))
        return coverage + (self._agreement.coverage() if self._agreement else Coverage())

    def _compute(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Compute a step."""
        if self._course.journal is None or self._course.holder is not None:
            return fn(*args, **kwargs)  # Not entered, or a step within a step.
        number, self._num_steps = self._num_steps, self._num_steps + 1
        replayed = self._is_due(number)
        if not (replayed or self._rewinds) or not self._course.is_checked(self._course.step):
            self._proven = None
            return fn(*args, **kwargs)
        self._test_start()
        plan: Plan | None = self._fence(self._begin, replayed, args, kwargs)
        if plan is None:
            return fn(*args, **kwargs)
        while True:
            self._attempt(plan, fn, args, kwargs)
            wish = self._decide(plan)
            if wish is Wish.FIRST:
                self._fence(plan.stay_with_first)
                break
            if wish is Wish.ACCEPT:
                break
            why = self._fence(plan.go_back)
            if why or self._fence.fault:
                self._give_up_going_back(plan, why)
                break
        return self._settle(plan)

    def _test_start(self) -> None:
        """Test what was carried here, and put it right from the copies where marks cannot."""
        found: list[Finding] = self._fence(self._tested_at_start) or []
        self._response.act(None, found, self._course.step)
        if self._rewinds and any(map(is_damage, found)):
            damage = next(filter(is_damage, found))
            raise StoppedError(
                f"{damage.rule} {damage.message}",
                todo="there is no copy to put it right from; go back to a checkpoint",
            )

    def _tested_at_start(self) -> list[Finding]:
        found = self._course.tested()
        if self._proven is not None:
            found = [healed_from(self._proven, f) if is_damage(f) else f for f in found]
        self._course.tell(found, self._course.step)
        return found

    def _begin(self, replayed: bool, args: Any, kwargs: Any) -> Plan:
        start = self._carried.capture(self._proven)
        self._proven = None
        return Plan(
            step=self._course.step,
            replayed=replayed,
            start=start,
            arguments=Arguments([list(args), dict(kwargs)]),
            watch=self._watch,
            checks=self._checks,
        )

    def _is_due(self, number: int) -> bool:
        """Whether a step is computed twice in any case."""
        every = self._config.replay_every
        if not every or self._witness.given_up:
            return False
        # DDP lays its buckets out anew after its first step: that one cannot repeat.
        first = 1 if job_ranks()[1] > 1 else 0
        return number >= first and (number - first) % every == 0

    def _attempt(self, plan: Plan, fn: Callable[..., Any], args: Any, kwargs: Any) -> None:
        """Compute the step once."""
        traced = plan.replayed or bool(plan.attempts)
        trace = Trace(self._carried.roots(), self._fence, plan.hold) if traced else None
        attempt = Attempt(len(plan.attempts) + 1, trace)
        if trace is not None:
            self._fence(trace.install)
        self._course.holder = attempt
        record = self._course.record
        began, spent_s = time.perf_counter(), record.spent_s
        try:
            attempt.value = fn(*args, **kwargs)
        except Exception as error:
            self._course.holder = None
            if self._is_final(plan, error):
                self._fence(self._tell_all, plan, attempt)
                raise
            attempt.error = error
        except BaseException:
            self._course.holder = None
            self._fence(self._tell_all, plan, attempt)
            raise
        finally:
            self._course.holder = None
            if trace is not None:
                trace.remove()
            if plan.attempts:  # The Guard's own doing, all of it.
                record.spent_s = spent_s + time.perf_counter() - began
        plan.attempts.append(attempt)
        self._fence(self._close, plan, attempt)

    def _is_final(self, plan: Plan, error: Exception) -> bool:
        """Whether an error of the step's function is the program's business.

        A wrong number may end a step in an error: it is computed again where rewinding is asked
        for. One rank alone cannot: the others wait for it in a collective.
        """
        if isinstance(error, StoppedError) or job_ranks()[1] > 1:
            return True
        if plan.attempts:
            return plan.last.error is not None
        return not self._rewinds

    def _close(self, plan: Plan, attempt: Attempt) -> None:
        """Test and capture what a computation came to."""
        found = self._course.tested()
        self._response.keep(found, plan.step)
        attempt.found(found)
        attempt.close(self._carried.capture(plan.base))
        plan.note_position()

    def _decide(self, plan: Plan) -> Wish:
        """Return what all ranks do with the step now."""
        if self._fence.fault:
            return Wish.ACCEPT
        if len(plan.attempts) == 1 and plan.replayed:
            return Wish.REPEAT
        mine = self._witness.wish(plan)
        if job_ranks()[1] > 1:
            mine = self._agreed(mine, plan.step)
        limit = 2 + self._config.max_rewinds
        if mine is Wish.REPEAT and len(plan.attempts) >= limit:
            if self._rewinds:
                self._stop(plan)
            return Wish.ACCEPT
        if mine is Wish.REPEAT and len(plan.attempts) > 1:
            self._hold_differences(plan)
        return mine

    def _hold_differences(self, plan: Plan) -> None:
        """Let the next computation keep the values in which the last ones part."""
        traces = [each.trace for each in plan.attempts if each.trace is not None]
        keys = set(plan.hold)
        for one, other in pairwise(traces):
            event, _ = first_difference(one, other)
            if event is not None:
                keys.add(event.key)
        plan.hold = keys

    def _agreed(self, mine: Wish, step: int) -> Wish:
        """Return the highest wish of all ranks; with no answer nothing is done again."""
        if self._agreement is None:
            config = self._config
            settings = f"steps, {config.on_finding}, {config.every}, {config.replay_every}"
            self._agreement = Agreement(settings, config.patience_s)
        agreed = self._fence(self._agreement.agree, int(mine), step)
        if agreed is None or not agreed.known:
            self._late += 1
            return Wish.ACCEPT
        return Wish(min(agreed.value, int(Wish.FIRST)))

    def _settle(self, plan: Plan) -> Any:
        """Tell what there is to tell, and go on from the last computation."""
        value = plan.last.value
        if self._fence.fault:
            with contextlib.suppress(Exception):
                self._tell_all(plan)
            return value
        is_elsewhere = self._is_elsewhere(plan)
        found: list[Finding] = self._fence(self._told, plan, is_elsewhere) or []
        self._checks.let_go()
        self._response.act(None, found, plan.step)
        return value

    def _is_elsewhere(self, plan: Plan) -> bool:
        """Whether another rank knows where it went wrong, and this one does not."""
        usual = 2 if plan.replayed else 1
        if job_ranks()[1] == 1 or len(plan.attempts) <= usual or self._fence.fault:
            return False
        settled = self._settlement(plan)
        level = 2 if settled.is_local and (settled.apart or settled.mismatches) else 0
        assert self._agreement is not None
        agreed = self._fence(self._agreement.agree, level, plan.step)
        return bool(agreed is not None and agreed.known and agreed.value > level)

    def _settlement(self, plan: Plan) -> Settlement:
        return Settlement(
            plan.attempts, step=plan.step, rank=self._rank, num_exact=self._witness.num_exact
        )

    def _told(self, plan: Plan, is_elsewhere: bool) -> list[Finding]:
        settled = self._settlement(plan)
        count = len(plan.attempts)
        usual = 2 if plan.replayed else 1
        if count > 1 and len(settled.alike) == 1 and not any(map(is_damage, _all(plan))):
            found = self._unlike(settled)
        else:
            found = settled.findings(is_elsewhere=is_elsewhere)
            if len(settled.alike) > 1:
                self._witness.note_alike()
        if count > usual:
            self._num_again += 1
            self._course.record.observe(
                "rewind",
                plan.step,
                computations=count,
                alike=len(settled.alike),
                wrong=[each.number for each in settled.apart],
                findings=[finding.id for finding in found],
            )
        for step, facts in plan.last.steps:
            self._course.record.step(step, **facts)
        self._response.record(found)
        self._proven = plan.last.end
        return found

    def _unlike(self, settled: Settlement) -> list[Finding]:
        """Return what is told where no two computations agree."""
        if self._witness.num_exact:
            return settled.findings()
        self._witness.note_unlike()
        return settled.nondeterminism()

    def _give_up_going_back(self, plan: Plan, why: str | None) -> None:
        """End what cannot be put back."""
        self._witness.given_up = self._witness.given_up or why or self._fence.fault
        if self._rewinds and why:
            self._stop(plan, why)

    def _stop(self, plan: Plan, why: str = "") -> None:
        self._fence(self._tell_all, plan)
        self._checks.let_go()
        found = [finding for finding in _all(plan) if is_damage(finding)]
        what = f"{found[0].rule} {found[0].message}" if found else "no two computations agree"
        raise StoppedError(
            f"step {plan.step} was computed {len(plan.attempts)} times, and is not right: {what}",
            todo=why or "what goes wrong is not transient: test this machine, or go to another",
        )

    def _tell_all(self, plan: Plan, attempt: Attempt | None = None) -> None:
        """Put everything on record that was held back, as it is."""
        last = attempt or plan.last
        told = {finding.id: finding for finding in (*_all(plan), *last.findings)}
        self._response.record(list(told.values()))
        for step, facts in last.steps:
            self._course.record.step(step, **facts)


def _all(plan: Plan) -> list[Finding]:
    return [finding for each in plan.attempts for finding in each.findings]

"""The check by replay: calls of the model are made again, and must give the same bits."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from everybit.core.boundary import Boundary
from everybit.core.mismatch import Cause
from everybit.detect.compute_mismatch import judge_mismatch, judge_unrepeatable
from everybit.guard.check import Check
from everybit.guard.meeting import job_ranks
from everybit.guard.replay.compare import Difference, compare
from everybit.guard.replay.investigate import (
    damaged_output,
    investigate,
    late_mismatch,
    why_not_the_same,
)
from everybit.guard.replay.late import EXACTLY, LateCalls
from everybit.guard.replay.obstacles import why_not
from everybit.guard.replay.preflight import preflight
from everybit.guard.replay.record import Recorder, expect_passes
from everybit.guard.replay.repeat import CannotRepeatError, Repeated, repeat
from everybit.guard.replay.standby import Affordable
from everybit.guard.replay.tally import Tally
from everybit.probe.wrappers import unwrap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from everybit.core.finding import Finding
    from everybit.core.mismatch import Mismatch
    from everybit.core.verdict import Coverage
    from everybit.guard.moment import Moment
    from everybit.guard.replay.record import CallRecord
    from everybit.guard.replay.standby import Sensors

    Audit = Callable[[CallRecord], Sequence[Finding]]
    Attribute = Callable[[CallRecord, Difference, Mismatch], Sequence[Finding]]

#: Calls that wait for their backward pass at once; more are not recorded.
MAX_WAITING: Final = 64
_SENSORS: Final = ("NUM503", "NUM504")
_NOT_RECORDED: Final = "not replayed: the step was not recorded, or its update was over"
_BY_GRAD: Final = "its gradients were taken by torch.autograd.grad"


class ReplayCheck(Check):
    """Record the calls of replayed steps, make them again when their backward has ended (CMP701).

    Args:
        rank: Rank of this process.
        every: Replay every so-manyeth checked step; 0 for never.
        promised: Whether the program has asked for it.
        preflight: Tell at the first step which operations do not repeat.
        audit: Is called with each planned call that has repeated exactly, before it is let go of.
        attribute: Says what is behind one that has not; its finding may come later.
    """

    def __init__(
        self,
        *,
        rank: int,
        every: int,
        promised: bool = False,
        preflight: bool = False,
        audit: Audit | None = None,
        attribute: Attribute | None = None,
    ) -> None:
        self._rank = rank
        self._every = every
        self._promised = promised
        self._preflight = preflight
        self._audit = audit
        self._attribute = attribute
        self._num_steps = 0
        self._is_held = False
        self._current: Recorder | None = None
        self._waiting: list[Recorder] = []
        self._done: list[Recorder] = []
        self._standby: list[Recorder] = []
        self._affordable = Affordable()
        self._sensors: Sensors | None = None
        self._late: LateCalls | None = None
        self._outcome = (-1, "")
        self._exact: Counter[tuple[int, str]] = Counter()
        self._noisy: set[tuple[int, str]] = set()
        self._given_up: set[int] = set()
        self._unproven: set[tuple[int, str]] = set()
        self._tally = Tally()

    def __call__(self, boundary: Boundary, moment: Moment) -> Sequence[Finding]:
        """Record and repeat; an error of our own ends replay, not the checks."""
        if self._tally.fault or self._is_held:
            return ()
        try:
            return self._look(boundary, moment)
        except Exception as error:
            self._tally.fault = f"a fault of its own: {type(error).__name__}: {error}"
            self.close()
            return ()

    def listen(self, sensors: Sensors) -> None:
        """Repeat a step, planned or not, whose loss or gradients a sensor doubts."""
        self._sensors = sensors
        self._late = LateCalls(self._affordable, sensors.words)

    def told(self, finding: Finding) -> Finding:
        """Return a sensor's finding with what a repeat of its step has said."""
        if finding.rule not in _SENSORS:
            return finding
        step, outcome = self._outcome
        if step != finding.where.step:
            outcome = _NOT_RECORDED
        message = finding.message
        if outcome == EXACTLY and job_ranks()[1] > 1:
            message += "; this rank's part gives the same bits when it is computed again: not its"
            message += " device, look at the data, or at what other ranks tell"
        elif outcome == EXACTLY:
            message += "; computed again it gives the same bits: not the device, look at the data"
        evidence = {**finding.evidence, "replayed": outcome}
        return replace(finding, message=message, evidence=evidence)

    def hold(self) -> None:
        """Leave a step alone that is computed again as a whole."""
        self.close()
        self._is_held = True

    def put_back(self) -> None:
        """Forget the calls of a step that begins anew."""
        self.close()

    def let_go(self) -> None:
        """Repeat calls again."""
        self._is_held = False

    def close(self) -> None:
        """Take every hook away."""
        current = [self._current] if self._current else []
        for recorder in (*self._waiting, *self._done, *self._standby, *current):
            recorder.close()
        self._waiting, self._done, self._standby, self._current = [], [], [], None
        if self._late is not None:
            self._late.clear()

    def coverage(self) -> Coverage:
        """Return how many calls were repeated, and which could not be."""
        return self._tally.coverage(promised=self._promised, preflight=self._preflight)

    def _look(self, boundary: Boundary, moment: Moment) -> Sequence[Finding]:
        if boundary is Boundary.FORWARD_START:
            self._begin(moment)
        elif boundary is Boundary.FORWARD_END and self._current is not None:
            return self._end_call()
        elif boundary is Boundary.BACKWARD_START:
            if self._standby and self._is_doubted(moment):
                self._wake()
            self._pass_on(moment)
            if self._waiting or self._done:
                expect_passes([*self._waiting, *self._done], moment.losses)
        elif boundary is Boundary.BACKWARD_END:
            if self._late is not None:
                self._late.end()
            if self._waiting or self._done:
                return self._go_back()
        elif boundary is Boundary.REWRITE_START and self._late is not None:
            self._late.look()
        elif boundary is Boundary.STEP_START:
            self._let_go(self._done)
            return self._look_back(moment)
        elif boundary is Boundary.STEP_END:
            self._num_steps += 1
            self._affordable.end_step()
            self._let_go(self._standby)
            for each in self._waiting:
                taken = bool(each.record.passes)
                self._skip(_BY_GRAD if taken else "no backward pass came through it")
            self._let_go(self._waiting)
            self._let_go(self._done)
            if self._late is not None:
                self._late.clear()
        return ()

    def _pass_on(self, moment: Moment) -> None:
        """Have the calls of a step that nobody doubts yet held until its gradients are judged."""
        if self._late is not None and (self._standby or self._late):
            on_host = all(loss.device.type == "cpu" for loss in moment.losses)
            if on_host:  # Elsewhere the gradients are judged when the update is over.
                self._late.begin(self._standby)
                self._standby = []
        self._let_go(self._standby)

    def _look_back(self, moment: Moment) -> Sequence[Finding]:
        """Make the calls of a step again whose gradients a sensor doubts."""
        late, sensors = self._late, self._sensors
        if late is None or sensors is None or moment.optimizer is None:
            return ()
        if not late or self._outcome[0] == moment.step or not sensors.doubts_gradients():
            return ()
        found = late.judge(sensors.parameters(moment.optimizer))
        self._outcome = moment.step, found.outcome
        self._tally.late += found.outcome == EXACTLY
        if found.record is None:
            return ()
        return [judge_mismatch(late_mismatch(found.record, found.outputs, rank=self._rank))]

    def _begin(self, moment: Moment) -> None:
        if self._current is not None:  # Its end was never heard of.
            self._current.close()
            self._current = None
        self._let_go(self._done)
        planned = bool(self._every) and self._num_steps % self._every == 0
        planned |= self._preflight and self._num_steps == 0
        if moment.root is None or not (planned or self._stands_by(moment)):
            return
        began = time.perf_counter()
        module = unwrap(moment.root)
        parts = list(module.modules())
        why = why_not(moment.root, parts)
        if id(module) in self._given_up:
            # Each repeat moves what is out of reach once more.
            self._tally.noisy += planned
            return
        if not moment.alone:
            why = "another thread is inside the model or an update"
        elif len(self._waiting) + len(self._standby) >= MAX_WAITING:
            why = f"more than {MAX_WAITING} calls wait for their backward pass"
        if why and not planned and self._late is not None:
            self._late.lose(why)
        if not why:
            self._current = Recorder(
                module, parts, step=moment.step, call=moment.call, quick=not planned
            )
        elif planned:
            self._skip(why)
        if not planned:
            self._affordable.spend(time.perf_counter() - began)

    def _stands_by(self, moment: Moment) -> bool:
        return self._sensors is not None and moment.differentiable and self._affordable.now

    def _is_doubted(self, moment: Moment) -> bool:
        sensors = self._sensors
        return sensors is not None and any(sensors.doubts(loss) for loss in moment.losses)

    def _wake(self) -> None:
        """Have the calls of a step that is doubted repeated."""
        for recorder in self._standby:
            recorder.awake()
            if recorder.record.obstacle or recorder.record.graph is not None:
                self._waiting.append(recorder)
            else:
                recorder.close()
        self._standby = []

    def _end_call(self) -> Sequence[Finding]:
        recorder, self._current = self._current, None
        assert recorder is not None
        recorder.end_call()
        if recorder.quick:
            self._affordable.spend(recorder.spent_s)
            if not recorder.record.obstacle:
                self._standby.append(recorder)
            elif self._late is not None:
                self._late.lose(recorder.record.obstacle)
        elif recorder.record.obstacle:
            self._skip(recorder.record.obstacle)
        elif recorder.record.graph is not None:
            self._waiting.append(recorder)
        else:
            self._done.append(recorder)
            found = self._replay(recorder.record)
            self._let_go(self._done)
            return found
        return ()

    def _go_back(self) -> Sequence[Finding]:
        """Repeat the calls that backward has just gone through; one may be gone through twice."""
        ready = [each for each in self._waiting if each.record.passes or each.record.obstacle]
        ready += [each for each in self._done if each.record.passes]
        self._waiting = [each for each in self._waiting if each not in ready]
        self._done += [each for each in ready if each not in self._done]
        findings: list[Finding] = []
        for each in ready:
            each.pass_ended()
            if self._preflight and not self._tally.preflight:
                findings += self._fly_ahead(each.record)
            findings += self._replay(each.record)
            each.record.passes.clear()
        return findings

    def _fly_ahead(self, record: CallRecord) -> Sequence[Finding]:
        """Look at every operation of the first call that is gone through backward."""
        if record.obstacle or why_not_the_same(record):
            return ()
        try:
            found = preflight(record)
        except CannotRepeatError:
            return ()  # The replay that follows says why.
        self._tally.preflight += found.num_operations
        self._noisy |= {(id(record.module()), each.module) for each in found.found}
        return [
            judge_unrepeatable(each, step=record.step, rank=self._rank, cost=found.cost)
            for each in found.found
        ]

    def _replay(self, record: CallRecord) -> Sequence[Finding]:
        try:
            if record.obstacle:
                raise CannotRepeatError(record.obstacle)
            if why := record.why_changed() or why_not_the_same(record):
                # An average that forward keeps through `.data`, say: a repeat would add to it.
                raise CannotRepeatError(why)
            repeated = repeat(record)
            difference = compare(record, repeated)
            if difference is not None:
                return self._differs(record, repeated, difference)
            damaged = damaged_output(record, repeated, rank=self._rank)
        except CannotRepeatError as error:
            self._skip(str(error))
            self._conclude(record, f"not replayed: {error}")
            return ()
        self._tally.count(record, repeated)
        self._conclude(record, repeated.no_backward and f"forward only: {repeated.no_backward}")
        if damaged is not None:
            self._conclude(record, "differently: an output was damaged after the call")
            return [judge_mismatch(damaged)]
        for name in {event.name for event in record.events} | {""} | set(record.owners):
            self._exact[id(record.module()), name] += 1
        return () if self._audit is None or not record.planned else self._audit(record)

    def _differs(
        self, record: CallRecord, repeated: Repeated, difference: Difference
    ) -> Sequence[Finding]:
        key = id(record.module()), difference.module
        if key in self._noisy:
            self._tally.noisy += 1
            self._conclude(record, "not replayed: the model does not repeat")
            return ()
        found = investigate(
            record, repeated, difference, rank=self._rank, num_exact=self._exact[key]
        )
        if found.cause is Cause.UNPROVEN and key in self._unproven:
            # Twice, and never exactly: what the first computation has, its repeats do not get.
            found = replace(found, cause=Cause.NONDETERMINISTIC)
        elif found.cause is Cause.UNPROVEN:
            self._unproven.add(key)
        self._tally.count(record, repeated)
        self._conclude(record, f"differently: {found.cause}")
        if found.cause in (Cause.NONDETERMINISTIC, Cause.RACE):  # It will come again.
            self._noisy.add(key)
            if not self._exact[key[0], ""]:
                self._given_up.add(key[0])
            return [judge_mismatch(found)]
        if self._attribute is None:
            return [judge_mismatch(found)]
        return self._attribute(record, difference, found)

    def _conclude(self, record: CallRecord, outcome: str) -> None:
        """Keep what the repeats of a step say of it; the first doubt stays."""
        step, before = self._outcome
        if step != record.step or before == EXACTLY:
            self._outcome = record.step, outcome or EXACTLY

    def _skip(self, why: str, count: int = 1) -> None:
        if count:
            self._tally.skipped[why] += count

    def _let_go(self, recorders: list[Recorder]) -> None:
        for recorder in recorders:
            recorder.close()
        recorders.clear()

"""The check by replay: calls of the model are made again, and must give the same bits."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from everybit.core.boundary import Boundary
from everybit.core.mismatch import Cause
from everybit.core.verdict import Checked, Coverage, Skipped
from everybit.detect.compute_mismatch import judge_mismatch, judge_unrepeatable
from everybit.guard.check import Check
from everybit.guard.replay.compare import Difference, compare
from everybit.guard.replay.investigate import damaged_output, investigate, why_not_the_same
from everybit.guard.replay.obstacles import why_not
from everybit.guard.replay.preflight import preflight
from everybit.guard.replay.record import Recorder, expect_passes
from everybit.guard.replay.repeat import CannotRepeatError, Repeated, repeat
from everybit.guard.replay.standby import Affordable
from everybit.probe.wrappers import unwrap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from everybit.core.finding import Finding
    from everybit.guard.moment import Moment
    from everybit.guard.replay.record import CallRecord

    Audit = Callable[[CallRecord], Sequence[Finding]]
    Keep = Callable[[CallRecord, Difference, Finding], Finding]

#: Calls that wait for their backward pass at once; more are not recorded.
MAX_WAITING: Final = 64
_SENSORS: Final = ("NUM503", "NUM504")
_EXACTLY: Final = "exactly"
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
        keep: Keeps a call that has not, and returns its finding with what it kept.
    """

    def __init__(
        self,
        *,
        rank: int,
        every: int,
        promised: bool = False,
        preflight: bool = False,
        audit: Audit | None = None,
        keep: Keep | None = None,
    ) -> None:
        self._rank = rank
        self._every = every
        self._promised = promised
        self._preflight = preflight
        self._num_preflight = 0
        self._audit = audit
        self._keep = keep
        self._num_steps = 0
        self._is_held = False
        self._current: Recorder | None = None
        self._waiting: list[Recorder] = []
        self._done: list[Recorder] = []
        self._standby: list[Recorder] = []
        self._affordable = Affordable()
        self._suspects: Callable[[torch.Tensor], bool] | None = None
        self._outcome = (-1, "")
        self._exact: Counter[tuple[int, str]] = Counter()
        self._noisy: set[tuple[int, str]] = set()
        self._unproven: set[tuple[int, str]] = set()
        self._skipped: Counter[str] = Counter()
        self._num_calls = 0
        self._num_gradients = 0
        self._num_noisy = 0
        self._fault = ""

    def __call__(self, boundary: Boundary, moment: Moment) -> Sequence[Finding]:
        """Record and repeat; an error of our own ends replay, not the checks."""
        if self._fault or self._is_held:
            return ()
        try:
            return self._look(boundary, moment)
        except Exception as error:
            self._fault = f"a fault of its own: {type(error).__name__}: {error}"
            self.close()
            return ()

    def listen(self, suspects: Callable[[torch.Tensor], bool]) -> None:
        """Repeat a step, planned or not, whose loss a sensor doubts.

        Args:
            suspects: Tells whether it doubts a loss, as a backward pass begins.
        """
        self._suspects = suspects

    def told(self, finding: Finding) -> Finding:
        """Return a sensor's finding with what a repeat of its step has said."""
        if finding.rule not in _SENSORS:
            return finding
        step, outcome = self._outcome
        if step != finding.where.step:
            outcome = _NOT_RECORDED
        message = finding.message
        if outcome == _EXACTLY:
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

    def coverage(self) -> Coverage:
        """Return how many calls were repeated, and which could not be."""
        checked = []
        if self._num_calls:
            checked.append(Checked(what="calls of a model computed again", count=self._num_calls))
        if self._num_gradients:
            what = "gradients of these calls computed again"
            checked.append(Checked(what=what, count=self._num_gradients))
        if self._num_preflight:
            what = "operations of the first call, repeated before the run"
            checked.append(Checked(what=what, count=self._num_preflight))
        promised = self._promised and not self._num_calls
        skipped = [
            Skipped(what=f"{count} calls of a model again", why=why, promised=promised)
            for why, count in self._skipped.items()
        ]
        if self._num_noisy:
            what = f"{self._num_noisy} calls of a model again"
            skipped.append(Skipped(what=what, why="the model does not repeat", promised=False))
        if self._preflight and self._num_preflight:
            what = "the loss, the update and other code outside the model: whether they repeat"
            why = "hooks see the model only; guard.step repeats whole steps"
            skipped.append(Skipped(what=what, why=why, promised=False))
        elif self._preflight:
            whys = "; ".join(self._skipped) or "no backward pass came through a model"
            skipped.append(Skipped(what="preflight", why=whys))
        if self._fault:
            skipped.append(Skipped(what="calls of a model again", why=self._fault))
        return Coverage(checked=tuple(checked), skipped=tuple(skipped))

    def _look(self, boundary: Boundary, moment: Moment) -> Sequence[Finding]:
        if boundary is Boundary.FORWARD_START:
            self._begin(moment)
        elif boundary is Boundary.FORWARD_END and self._current is not None:
            return self._end_call()
        elif boundary is Boundary.BACKWARD_START:
            if self._standby and self._is_doubted(moment):
                self._wake()
            if self._waiting or self._done:
                expect_passes([*self._waiting, *self._done], moment.losses)
        elif boundary is Boundary.BACKWARD_END:
            self._let_go(self._standby)
            if self._waiting or self._done:
                return self._go_back()
        elif boundary is Boundary.STEP_START:
            self._let_go(self._done)
        elif boundary is Boundary.STEP_END:
            self._num_steps += 1
            self._affordable.end_step()
            self._let_go(self._standby)
            for each in self._waiting:
                taken = bool(each.record.passes)
                self._skip(_BY_GRAD if taken else "no backward pass came through it")
            self._let_go(self._waiting)
            self._let_go(self._done)
        return ()

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
        if not moment.alone:
            why = "another thread is inside the model or an update"
        elif len(self._waiting) + len(self._standby) >= MAX_WAITING:
            why = f"more than {MAX_WAITING} calls wait for their backward pass"
        if not why:
            self._current = Recorder(
                module, parts, step=moment.step, call=moment.call, quick=not planned
            )
        elif planned:
            self._skip(why)
        if not planned:
            self._affordable.spend(time.perf_counter() - began)

    def _stands_by(self, moment: Moment) -> bool:
        return self._suspects is not None and moment.differentiable and self._affordable.now

    def _is_doubted(self, moment: Moment) -> bool:
        suspects = self._suspects
        return suspects is not None and any(suspects(loss) for loss in moment.losses)

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
            if self._preflight and not self._num_preflight:
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
        self._num_preflight += found.num_operations
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
        self._count(record, repeated)
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
            self._num_noisy += 1
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
        self._count(record, repeated)
        self._conclude(record, f"differently: {found.cause}")
        if found.cause is Cause.NONDETERMINISTIC:
            self._noisy.add(key)
            return [judge_mismatch(found)]
        finding = judge_mismatch(found)
        return [finding if self._keep is None else self._keep(record, difference, finding)]

    def _conclude(self, record: CallRecord, outcome: str) -> None:
        """Keep what the repeats of a step say of it; the first doubt stays."""
        step, before = self._outcome
        if step != record.step or before == _EXACTLY:
            self._outcome = record.step, outcome or _EXACTLY

    def _count(self, record: CallRecord, repeated: Repeated) -> None:
        self._num_calls += 1
        if record.graph is not None:
            self._num_gradients += len(repeated.words) * len(record.graph.out)
        if repeated.no_backward:
            self._skip(f"backward: {repeated.no_backward}")

    def _skip(self, why: str, count: int = 1) -> None:
        if count:
            self._skipped[why] += count

    def _let_go(self, recorders: list[Recorder]) -> None:
        for recorder in recorders:
            recorder.close()
        recorders.clear()

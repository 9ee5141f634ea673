"""The check by replay: calls of the model are made again, and must give the same bits."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from everybit.core.boundary import Boundary
from everybit.core.mismatch import Cause
from everybit.core.verdict import Checked, Coverage, Skipped
from everybit.detect.compute_mismatch import judge_mismatch
from everybit.guard.check import Check
from everybit.guard.replay.compare import Difference, compare
from everybit.guard.replay.investigate import investigate
from everybit.guard.replay.obstacles import why_not
from everybit.guard.replay.record import Recorder, expect_passes
from everybit.guard.replay.repeat import CannotRepeatError, Repeated, repeat
from everybit.probe.wrappers import unwrap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from everybit.core.finding import Finding
    from everybit.guard.moment import Moment
    from everybit.guard.replay.record import CallRecord

    Audit = Callable[[CallRecord], Sequence[Finding]]
    Keep = Callable[[CallRecord, Difference, Finding], Finding]

#: Calls that wait for their backward pass at once; more are not recorded.
MAX_WAITING: Final = 64
_BY_GRAD: Final = "its gradients were taken by torch.autograd.grad"


class ReplayCheck(Check):
    """Record the calls of replayed steps, make them again when their backward has ended (CMP701).

    Args:
        rank: Rank of this process.
        every: Replay every so-manyeth checked step; 0 for never.
        promised: Whether the program has asked for it.
        audit: Is called with each call that has repeated exactly, before it is let go of.
        keep: Keeps a call that has not, and returns its finding with what it kept.
    """

    def __init__(
        self,
        *,
        rank: int,
        every: int,
        promised: bool = False,
        audit: Audit | None = None,
        keep: Keep | None = None,
    ) -> None:
        self._rank = rank
        self._every = every
        self._promised = promised
        self._audit = audit
        self._keep = keep
        self._num_steps = 0
        self._is_held = False
        self._current: Recorder | None = None
        self._waiting: list[Recorder] = []
        self._done: list[Recorder] = []
        self._exact: Counter[tuple[int, str]] = Counter()
        self._noisy: set[tuple[int, str]] = set()
        self._skipped: Counter[str] = Counter()
        self._num_calls = 0
        self._num_gradients = 0
        self._num_noisy = 0
        self._fault = ""

    def __call__(self, boundary: Boundary, moment: Moment) -> Sequence[Finding]:
        """Record and repeat; an error of our own ends replay, not the checks."""
        if not self._every or self._fault or self._is_held:
            return ()
        try:
            return self._look(boundary, moment)
        except Exception as error:
            self._fault = f"a fault of its own: {type(error).__name__}: {error}"
            self.close()
            return ()

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
        for recorder in (*self._waiting, *self._done, *([self._current] if self._current else [])):
            recorder.close()
        self._waiting, self._done, self._current = [], [], None

    def coverage(self) -> Coverage:
        """Return how many calls were repeated, and which could not be."""
        checked = []
        if self._num_calls:
            checked.append(Checked(what="calls of a model computed again", count=self._num_calls))
        if self._num_gradients:
            what = "gradients of these calls computed again"
            checked.append(Checked(what=what, count=self._num_gradients))
        promised = self._promised and not self._num_calls
        skipped = [
            Skipped(what=f"{count} calls of a model again", why=why, promised=promised)
            for why, count in self._skipped.items()
        ]
        if self._num_noisy:
            what = f"{self._num_noisy} calls of a model again"
            skipped.append(Skipped(what=what, why="the model does not repeat", promised=False))
        if self._fault:
            skipped.append(Skipped(what="calls of a model again", why=self._fault))
        return Coverage(checked=tuple(checked), skipped=tuple(skipped))

    def _look(self, boundary: Boundary, moment: Moment) -> Sequence[Finding]:
        if boundary is Boundary.FORWARD_START:
            self._begin(moment)
        elif boundary is Boundary.FORWARD_END and self._current is not None:
            return self._end_call()
        elif boundary is Boundary.BACKWARD_START and (self._waiting or self._done):
            expect_passes([*self._waiting, *self._done], moment.losses)
        elif boundary is Boundary.BACKWARD_END and (self._waiting or self._done):
            return self._go_back()
        elif boundary is Boundary.STEP_START:
            self._let_go(self._done)
        elif boundary is Boundary.STEP_END:
            self._num_steps += 1
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
        if self._num_steps % self._every or moment.root is None:
            return
        if not moment.alone:
            self._skip("another thread is inside the model or an update")
            return
        if len(self._waiting) >= MAX_WAITING:
            self._skip(f"more than {MAX_WAITING} calls wait for their backward pass")
            return
        module = unwrap(moment.root)
        parts = list(module.modules())
        if why := why_not(moment.root, parts):
            self._skip(why)
            return
        self._current = Recorder(module, parts, step=moment.step, call=moment.call)

    def _end_call(self) -> Sequence[Finding]:
        recorder, self._current = self._current, None
        assert recorder is not None
        recorder.end_call()
        if recorder.record.obstacle:
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
            findings += self._replay(each.record)
            each.record.passes.clear()
        return findings

    def _replay(self, record: CallRecord) -> Sequence[Finding]:
        try:
            if record.obstacle:
                raise CannotRepeatError(record.obstacle)
            repeated = repeat(record)
            difference = compare(record, repeated)
            if difference is not None:
                return self._differs(record, repeated, difference)
        except CannotRepeatError as error:
            self._skip(str(error))
            return ()
        self._count(record, repeated)
        for name in {event.name for event in record.events} | {""} | set(record.owners):
            self._exact[id(record.module()), name] += 1
        return () if self._audit is None else self._audit(record)

    def _differs(
        self, record: CallRecord, repeated: Repeated, difference: Difference
    ) -> Sequence[Finding]:
        key = id(record.module()), difference.module
        if key in self._noisy:
            self._num_noisy += 1
            return ()
        found = investigate(
            record, repeated, difference, rank=self._rank, num_exact=self._exact[key]
        )
        self._count(record, repeated)
        if found.cause is Cause.NONDETERMINISTIC:
            self._noisy.add(key)
            return [judge_mismatch(found)]
        finding = judge_mismatch(found)
        return [finding if self._keep is None else self._keep(record, difference, finding)]

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

"""The check that traces: outputs and their gradients by module or operation, and block sums."""

from __future__ import annotations

import time
from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING, Any

from everybit.core.boundary import Boundary
from everybit.core.config import TraceLevel
from everybit.core.link import Link
from everybit.core.steps import Steps
from everybit.core.verdict import Checked, Coverage, Skipped
from everybit.guard.check import Check
from everybit.guard.root_call import repeating
from everybit.guard.trace.asides import dropped_calls, without
from everybit.guard.trace.columns import Column, SameNames
from everybit.guard.trace.operations import OperationMode
from everybit.guard.trace.parts import Parts, path_of
from everybit.guard.trace.schedule import FIRST, FIRST_UNTRACED, Schedule
from everybit.guard.trace.tracer import Tracer
from everybit.guard.trace.words import row_of
from everybit.guard.tracked import parameter_ids
from everybit.guard.uncompiled import anything_is_compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    import torch

    from everybit.core.config import Config
    from everybit.core.finding import Finding
    from everybit.core.observation import SumTable, TensorTable
    from everybit.guard.moment import Moment
    from everybit.guard.readout import Readout, Ticket
    from everybit.guard.state import CarriedState
    from everybit.guard.step_calls import StepCall, StepCalls


class TraceCheck(Check):
    """Record what lies between batch and update; it judges nothing.

    Args:
        state: Knows roots, optimizers and parameters.
        readout: Brings what is on accelerators to the host at the end of the step.
        fence: Calls a function with arguments; where that fails, the job does not.
        config: Level, steps, and of what block sums are taken.
        calls: Knows which calls belong to the step, once it has ended.

    Attributes:
        tables: Digests of the last finished step: of outputs, and of their gradients.
        sums: Block sums of it.
    """

    def __init__(
        self,
        state: CarriedState,
        readout: Readout,
        fence: Callable[..., Any],
        config: Config,
        calls: StepCalls,
    ) -> None:
        self.tables: tuple[TensorTable, ...] = ()
        self.sums: tuple[SumTable, ...] = ()
        self._state = state
        self._calls = calls
        self._readout = readout
        self._level = config.trace
        self._every = config.every
        self._steps = Steps.parse(config.trace_steps) if config.trace_steps else Steps()
        first = FIRST_UNTRACED if self._level is TraceLevel.STEP else FIRST
        self._schedule = Schedule(config.trace_sums, first=first)
        self._tracer = Tracer(fence, self._schedule.wants)
        self._parts = Parts(self._tracer)
        self._around: list[Callable[[], AbstractContextManager[Any]]] = []
        self._gradients, self._updates = Column(), Column()
        self._names = SameNames()
        self._asked: Ticket | None = None
        self._begun = False
        self._by_operation = False
        self._held: Any = None
        self._aside: StepCall | None = None
        self._num_values = 0
        self._clock = _Clock()

    def beside(
        self, other: Callable[[], AbstractContextManager[Any]]
    ) -> Callable[[], AbstractContextManager[Any]]:
        """Return what calls and backward passes run within: `other`, and what is needed here."""

        def around() -> AbstractContextManager[Any]:
            if not self._by_operation:
                return other()
            stack = ExitStack()
            stack.enter_context(other())
            stack.enter_context(self._operations())
            return stack

        return around

    def __call__(self, boundary: Boundary, moment: Moment) -> Sequence[Finding]:
        """Take what this boundary offers."""
        if not self._begun and boundary is not Boundary.STEP_END:
            self._begin(moment.step)
        if boundary is Boundary.STEP_START and moment.optimizer is not None:
            self._sum_gradients(moment.optimizer)
        elif boundary is Boundary.STEP_END:
            self._end(moment)
        elif self._level is TraceLevel.STEP:
            pass
        elif boundary is Boundary.FORWARD_START:
            call = self._calls.current
            self._aside = call if call is not None and not call.training else None
            if self._aside is not None:
                self._aside.before = self._tracer.counts()
            path = self._path_of_root(moment.root)
            traced = call is None or self._calls.is_traced(call)
            self._tracer.enter_root(path, counts=traced and self._counts(moment))
        elif boundary is Boundary.FORWARD_END:
            path = self._path_of_root(moment.root)
            self._tracer.leave_root(path, moment.outputs)
            if self._aside is not None:
                self._aside.after = self._tracer.counts()
        return ()

    def finish(self, moment: Moment) -> Sequence[Finding]:
        """Make tables of what was read, and begin the next step."""
        tracer, names = self._tracer, self._names
        words = iter(self._asked.words if self._asked else ())
        tables, sums = [], []
        for link, column in ((Link.FORWARD, tracer.forward), (Link.GRAD, tracer.backward)):
            if column.names:
                read = [next(words) for _ in column.names]
                tables.append(column.table(link, read, names))
                self._num_values += len(read)
        for link, column in (
            (Link.FORWARD, tracer.forward),
            (Link.GRAD, tracer.backward),
            (Link.GRAD, self._gradients),
            (Link.UPDATE, self._updates),
        ):
            table = column.sums(link, names)
            if table is not None:
                sums.append(table)
        self.tables, self.sums = tuple(tables), tuple(sums)
        self._gradients, self._updates = Column(), Column()
        self._asked = None
        self._begun = False
        tracer.forget()
        self._schedule.next()
        self._clock.step_ended(by_operation=self._by_operation)
        if (moment.step + 1) % self._every == 0:
            self._arm(moment.step + 1)  # Parts may be called by themselves before the model is.
        return ()

    def hold(self) -> None:
        """Keep what the step has given so far."""
        self._held = (self._tracer.held(), self._gradients.copy(), self._updates.copy())

    def put_back(self) -> None:
        """Forget what came since."""
        if self._held is not None:
            traced, gradients, updates = self._held
            self._tracer.put_back(traced)
            self._gradients, self._updates = gradients.copy(), updates.copy()

    def let_go(self) -> None:
        """Keep nothing twice."""
        self._held = None

    def coverage(self) -> Coverage:
        """Return what was traced, and what was not."""
        if self._level is TraceLevel.STEP:
            return Coverage()
        what = f"digests of outputs and their gradients (trace={self._level})"
        checked = (Checked(what=what, count=self._num_values),) if self._num_values else ()
        skipped = [
            Skipped(what=f"{count} traced calls or values", why=why, promised=False)
            for why, count in sorted(self._tracer.skipped.items())
        ]
        if self._parts.why_closed:
            why = self._parts.why_closed
            skipped.append(Skipped(what="tracing of parts", why=why, promised=False))
        return Coverage(checked=checked, skipped=tuple(skipped))

    def stats(self) -> dict[str, Any]:
        """Return what tracing by operation costs: the time of its steps over that of others."""
        return self._clock.stats()

    def close(self) -> None:
        """Leave every call as it was."""
        self._tracer.armed = False
        self._parts.remove()

    def _begin(self, step: int) -> None:
        """Begin a checked step."""
        self._begun = True
        if self._level is not TraceLevel.STEP:
            self._parts.sync(self._state.members.roots)
        self._arm(step)

    def _arm(self, step: int) -> None:
        self._tracer.summing = self._schedule.everything
        if self._level is TraceLevel.STEP:
            return
        self._by_operation = (
            self._level is TraceLevel.OP and step in self._steps and not anything_is_compiled()
        )
        self._tracer.by_operation = self._by_operation
        self._tracer.armed = True

    def _end(self, moment: Moment) -> None:
        if moment.optimizer is not None:
            self._sum_updates(moment.optimizer)
        tracer = self._tracer
        tracer.armed = False
        dropped = dropped_calls(self._calls.beside())
        if dropped:
            tracer.forward = without(tracer.forward, dropped)
            tracer.backward = without(tracer.backward, dropped)
        self._asked = self._readout.ask([*tracer.forward.words, *tracer.backward.words])

    def _counts(self, moment: Moment) -> bool:
        """Whether a root's call belongs to the step.

        What is called without gradients belongs to it where nothing trains it (a teacher, a target
        network); else it is evaluation between updates.
        """
        if moment.differentiable or moment.evaluating or moment.root is None:
            return True
        trained: set[int] = set()
        for optimizer, _ in self._state.members.optimizers:
            trained |= parameter_ids(optimizer)
        return not any(id(p) in trained for p in moment.root.parameters())

    def _path_of_root(self, module: torch.nn.Module | None) -> str | None:
        for root, name in self._state.members.roots:
            if root is module:
                return path_of(name, "")
        return None

    def _sum_gradients(self, optimizer: torch.optim.Optimizer) -> None:
        pairs = [(label, p.grad) for label, p in self._state.parameters_of(optimizer)]
        self._sum(self._gradients, pairs)

    def _sum_updates(self, optimizer: torch.optim.Optimizer) -> None:
        self._sum(self._updates, self._state.parameters_of(optimizer))

    def _sum(self, column: Column, pairs: Iterable[tuple[str, torch.Tensor | None]]) -> None:
        everything, wants = self._tracer.summing, self._schedule.wants
        for label, tensor in pairs:
            if tensor is not None and (everything or wants(label)):
                row = row_of(tensor.detach())
                if row is not None:
                    column.add_sums(label, row)

    def _operations(self) -> AbstractContextManager[Any]:
        if not self._tracer.armed or repeating():
            return nullcontext()
        return OperationMode(self._tracer)


class _Clock:
    """The time of steps that were traced by operation, and of the others."""

    def __init__(self) -> None:
        self._last = 0.0
        self._spent = {True: 0.0, False: 0.0}
        self._count = {True: 0, False: 0}

    def step_ended(self, *, by_operation: bool) -> None:
        now = time.perf_counter()
        if self._last:
            self._spent[by_operation] += now - self._last
            self._count[by_operation] += 1
        self._last = now

    def stats(self) -> dict[str, Any]:
        if not self._count[True]:
            return {}
        stats: dict[str, Any] = {"op_steps": self._count[True]}
        seconds = self._spent[True] / self._count[True]
        stats["op_step_seconds"] = round(seconds, 4)
        if self._count[False]:
            others = self._spent[False] / self._count[False]
            stats["op_step_cost"] = round(seconds / max(others, 1e-9), 2)
        return stats

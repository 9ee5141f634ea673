"""Plant faults at their moments in a running loop, with no edit inside the loop."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import nn
from torch.optim.optimizer import _global_optimizer_pre_hooks, register_optimizer_step_pre_hook

from everybit.core.boundary import Boundary
from everybit.core.errors import UsageError
from everybit.core.fault import Fault, Pattern
from everybit.inject.calls import CallOfRoot
from everybit.inject.injection import Injection, Undone, apply
from everybit.inject.memory import read_elements
from everybit.inject.targets import find_target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torch.utils.hooks import RemovableHandle

    from everybit.inject.targets import Holder

_PLANTABLE = (
    Boundary.FORWARD_START,
    Boundary.FORWARD_END,
    Boundary.STEP_START,
    Boundary.STEP_END,
)


class Campaign:
    """Faults waiting for their moments, as a context manager.

    Inside it, the calls of the root modules and the step hooks of the optimizers plant each fault
    when its step and boundary come, around the checks of a Guard at calls: enter the Guard first,
    then the campaign. A stuck fault is forced again at every later boundary until its last
    step. On exit the hooks go, and what still holds damage is put back, the last planted first.

    Args:
        faults: A `stale` one brings back what was there at its boundary one step before. Their
            `step` counts the optimizers' updates from the entry on; `boundary` is one
            of `forward_start`, `forward_end`, `step_start` and `step_end`. As everywhere `step`
            is the one in which the bits are next used: `step_end` with step 3 is right after the
            update of step 2.
        holders: Modules and optimizers, as given to the Guard.
        count: The current step, where the caller counts better (a GradScaler's skips fire no hook
            here).
        undo: Whether the exit puts damage back. Inside a Guard that is still active say no, and
            call `undo` after it: to its last test, putting bits back is one more stray write.

    Attributes:
        injections: What was planted, in order, each with its exact truth.
        waiting: The faults whose moment has not come.
    """

    def __init__(
        self,
        faults: Iterable[Fault],
        *holders: Holder,
        count: Callable[[], int] | None = None,
        undo: bool = True,
    ) -> None:
        self.injections: list[Injection] = []
        self.waiting: list[Fault] = list(faults)
        self._stuck: list[Fault] = []
        self._holders = holders
        self._steps = 0
        self._count = count
        self._undo_on_exit = undo
        self._handles: list[RemovableHandle] = []
        self._optimizers: list[torch.optim.Optimizer] = []
        self._calls: list[CallOfRoot] = []
        for fault in self.waiting:
            if fault.boundary not in _PLANTABLE:
                raise UsageError(
                    f"boundary {fault.boundary} of a fault",
                    todo=f"use one of {', '.join(_PLANTABLE)}",
                )

    @property
    def step(self) -> int:
        """Updates so far: the number of the step in which bits are next used."""
        return self._steps if self._count is None else self._count()

    def __enter__(self) -> Self:
        for holder in self._holders:
            if isinstance(holder, nn.Module):
                self._calls.append(CallOfRoot(holder, self._forward_start, self._forward_end))
            elif isinstance(holder, torch.optim.Optimizer):
                self._handles.append(holder.register_step_post_hook(self._step_end))
                self._optimizers.append(holder)
        # Planted ahead of every other pre-hook, a Guard's global one too, whose check must see it.
        before = register_optimizer_step_pre_hook(self._step_start)
        _global_optimizer_pre_hooks.move_to_end(before.id, last=False)  # type: ignore[attr-defined]
        self._handles.append(before)
        return self

    def __exit__(self, *exception: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._optimizers.clear()
        while self._calls:
            self._calls.pop().remove()
        self._stuck.clear()
        if self._undo_on_exit:
            self.undo()

    def undo(self) -> Undone:
        """Put back all damage that is still in place, the last planted first; return the counts."""
        done = [injection.undo() for injection in reversed(self.injections)]
        return Undone(restored=sum(d.restored for d in done), left=sum(d.left for d in done))

    def advance(self, boundary: Boundary, step: int | None = None) -> list[Injection]:
        """Plant what is due now; the hooks call it, and loops without hooks may.

        Args:
            boundary: The moment.
            step: The step in which bits are next used; the campaign's own count by default.

        Returns:
            What was planted by this call.
        """
        now = self.step if step is None else step
        self._remember(boundary, now)
        self._stuck = [f for f in self._stuck if f.last_step is None or now <= f.last_step]
        planted = [injection for f in self._stuck if (injection := self._plant(f, now)).changes]
        due = [f for f in self.waiting if f.boundary is boundary and f.step == now]
        for fault in due:
            planted.append(self._plant(fault, now))
            self.waiting.remove(fault)
            if fault.pattern is Pattern.STUCK:
                self._stuck.append(fault)
        self.injections += planted
        return planted

    def _remember(self, boundary: Boundary, step: int) -> None:
        """Read, a step before, what a stale fault will bring back."""
        for index, fault in enumerate(self.waiting):
            if (
                fault.pattern is Pattern.STALE
                and (boundary, step + 1) == (fault.boundary, fault.step)
                and not fault.values
            ):
                tensor = find_target(fault, *self._holders).value
                words = read_elements(tensor, fault.elements)
                values = tuple(int.from_bytes(word, "little") for word in words)
                self.waiting[index] = replace(fault, values=values)

    def _plant(self, fault: Fault, step: int) -> Injection:
        return apply(fault, *self._holders, step=step)

    def _forward_start(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        self.advance(Boundary.FORWARD_START)
        return args, kwargs

    def _forward_end(self) -> None:
        self.advance(Boundary.FORWARD_END)

    def _step_start(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if any(optimizer is mine for mine in self._optimizers):
            self.advance(Boundary.STEP_START)

    def _step_end(self, *_: Any) -> None:
        self._steps += 1
        self.advance(Boundary.STEP_END)

"""Calls become boundaries: forward_start, forward_end, backward_end, step_start, step_end.

The calls of root modules are surrounded, every optimizer has the global step hooks; `backward` and
`GradScaler.step` are wrapped while installed. Nothing is hooked inside compiled regions.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

import torch
from torch.amp.grad_scaler import GradScaler
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from everybit.core.boundary import Boundary
from everybit.guard.moment import Moment
from everybit.guard.patches import Patches
from everybit.guard.root_call import RootCall

if TYPE_CHECKING:
    from collections.abc import Callable

    Emit = Callable[[Boundary, Moment], None]

#: The code that runs every optimizer's `step` between its hooks.
_STEP_CODE: Any = torch.optim.Optimizer.profile_hook_step(lambda: None).__code__


class Boundaries:
    """Count steps and emit boundaries.

    Args:
        emit: Called at each boundary, in the thread that reached it.
        wants: Whether an optimizer belongs to the watched loop; others are not counted.
        abandon: Called with an optimizer whose step was left by an error, before the next boundary.
    """

    def __init__(
        self,
        emit: Emit,
        wants: Callable[[torch.optim.Optimizer], bool],
        abandon: Callable[[torch.optim.Optimizer], None],
    ) -> None:
        self.step = 0
        self.calls = 0
        self.num_calls = 0
        self._emit = emit
        self._wants = wants
        self._abandon = abandon
        self._depth = 0
        self._used = False
        self._backward_depth = 0
        self._running: list[torch.optim.Optimizer] = []
        self._thread = 0
        self._roots: dict[int, RootCall] = {}
        self._patches = Patches()
        self._hooks: list[Any] = []
        self._scaled: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._steps_of: dict[int, int] = {}

    @property
    def inside(self) -> bool:
        """Whether a root call or an update is running."""
        return self._depth > 0 or bool(self._still_running())

    def install(self) -> None:
        """Hook optimizers, `backward` and GradScaler."""
        self._hooks = [
            register_optimizer_step_pre_hook(self._step_start),
            register_optimizer_step_post_hook(self._step_end),
        ]
        self._patches.wrap(torch.autograd, "backward", self._backward)
        self._patches.wrap(GradScaler, "step", self._scaler_step)
        self._patches.wrap(GradScaler, "scale", self._scaler_scale)
        self._patches.wrap(torch.nn.Module, "compile", self._module_compile)
        self._patches.wrap(torch.nn.Module, "_replicate_for_data_parallel", _replica)

    def remove(self) -> None:
        """Leave everything as it was before `install` and `attach`."""
        for call in self._roots.values():
            call.remove()
        self._roots.clear()
        for hook in self._hooks:
            hook.remove()
        self._patches.undo()
        self._scaled.clear()

    def attach(self, root: torch.nn.Module) -> None:
        """Surround a root module's calls; a second time for the same one does nothing."""
        known = self._roots.get(id(root))
        if known is None or not known.surrounds(root):
            self._roots[id(root)] = RootCall(root, self._enter, self._leave)

    def detach(self, root: torch.nn.Module) -> None:
        """Leave a root module's calls alone again."""
        call = self._roots.pop(id(root), None)
        if call is not None:
            call.remove()

    def _module_compile(self, original: Any, module: Any, *args: Any, **kwargs: Any) -> None:
        original(module, *args, **kwargs)
        call = self._roots.get(id(module))
        if call is not None:
            call.install()

    def _enter(self, args: Any, kwargs: Any) -> None:
        self._depth += 1
        if self._depth > 1:
            return
        try:
            moment = Moment(
                step=self.step,
                call=self.calls,
                args=args,
                kwargs=kwargs,
                used=self._used,
                updating=tuple(self._still_running()),
            )
            self._emit(Boundary.FORWARD_START, moment)
        except BaseException:
            self._depth -= 1
            raise
        self._used |= torch.is_grad_enabled()

    def _leave(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            moment = Moment(step=self.step, call=self.calls, updating=tuple(self._running))
            self.calls += 1
            self.num_calls += 1
            self._emit(Boundary.FORWARD_END, moment)

    def _backward(self, original: Any, tensors: Any, *args: Any, **kwargs: Any) -> Any:
        self._backward_depth += 1
        try:
            result = original(tensors, *args, **kwargs)
        finally:
            self._backward_depth -= 1
        if self._backward_depth == 0:
            roots = (tensors,) if isinstance(tensors, torch.Tensor) else tuple(tensors)
            losses = tuple(self._unscaled(t) for t in roots if isinstance(t, torch.Tensor))
            self._emit(Boundary.BACKWARD_END, Moment(step=self.step, losses=losses))
        return result

    def _unscaled(self, tensor: torch.Tensor) -> torch.Tensor:
        scaled, original = self._scaled.pop(id(tensor), (None, None))
        return original if scaled is tensor and original is not None else tensor

    def _scaler_scale(self, original: Any, scaler: Any, outputs: Any) -> Any:
        result = original(scaler, outputs)
        if isinstance(outputs, torch.Tensor) and result is not outputs:
            self._scaled[id(result)] = (result, outputs.detach())
        return result

    def _scaler_step(
        self, original: Any, scaler: Any, optimizer: Any, *args: Any, **kwargs: Any
    ) -> Any:
        before = self._steps_of.get(id(optimizer), 0)
        result = original(scaler, optimizer, *args, **kwargs)
        wanted = scaler.is_enabled() and self._wants(optimizer)
        if wanted and self._steps_of.get(id(optimizer), 0) == before:
            self._step_start(optimizer, (), {})
            self._finish(optimizer, skipped=True)
        return result

    def _step_start(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if torch.compiler.is_compiling() or not self._wants(optimizer):
            return
        nested = bool(self._still_running(but=optimizer))
        self._running.append(optimizer)
        if nested:
            return
        self._thread = threading.get_ident()
        try:
            used = self._used or self.num_calls == 0
            self._emit(Boundary.STEP_START, Moment(step=self.step, optimizer=optimizer, used=used))
        except BaseException:
            self._running.clear()
            raise

    def _step_end(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if torch.compiler.is_compiling() or not self._wants(optimizer):
            return
        # A fused optimizer is told by the scaler, during the call, whether to skip.
        found_inf = getattr(optimizer, "found_inf", None)
        skipped: bool | torch.Tensor = False
        if isinstance(found_inf, torch.Tensor):
            skipped = found_inf.detach() > 0
            if found_inf.device.type == "cpu":
                skipped = bool(skipped.numpy())
        self._finish(optimizer, skipped=skipped)

    def _finish(self, optimizer: Any, *, skipped: bool | torch.Tensor) -> None:
        if optimizer in self._running:
            del self._running[self._running.index(optimizer) :]
        if self._running:
            return
        self._steps_of[id(optimizer)] = self._steps_of.get(id(optimizer), 0) + 1
        moment = Moment(step=self.step, optimizer=optimizer, skipped=skipped)
        self.step += 1
        self.calls = 0
        self._used = False
        self._scaled.clear()
        self._emit(Boundary.STEP_END, moment)

    def _still_running(
        self, *, but: torch.optim.Optimizer | None = None
    ) -> list[torch.optim.Optimizer]:
        """Return the optimizers whose step is running; an error ends a step with no hook called.

        Args:
            but: One whose step has just begun: an earlier step of it is over.
        """
        if self._running and self._thread == threading.get_ident():
            on_stack = _stepping()
            over = [o for o in self._running if id(o) not in on_stack or o is but]
            if over:
                self._running = [o for o in self._running if o not in over]
                for optimizer in over:
                    self._abandon(optimizer)
        return self._running


def _stepping() -> set[int]:
    """Return the identities of the optimizers whose `step` is on this thread's stack."""
    found = set()
    frame: Any = sys._getframe()
    while frame is not None:
        if frame.f_code is _STEP_CODE:
            found.add(id(frame.f_locals.get("self")))
        frame = frame.f_back
    return found


def _replica(original: Any, module: torch.nn.Module) -> Any:
    replica = original(module)
    if isinstance(replica.__dict__.get("_compiled_call_impl"), RootCall):
        del replica.__dict__["_compiled_call_impl"]
    return replica

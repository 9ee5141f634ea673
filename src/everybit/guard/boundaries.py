"""Hooks become boundaries: forward_start, forward_end, backward_end, step_start, step_end.

Root modules get forward hooks, every optimizer the global step hooks; `backward` and
`GradScaler.step` are wrapped while installed. Nothing is hooked inside compiled regions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.amp.grad_scaler import GradScaler
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from everybit.core.boundary import Boundary
from everybit.guard.moment import Moment

if TYPE_CHECKING:
    from collections.abc import Callable

    Emit = Callable[[Boundary, Moment], None]


class Boundaries:
    """Count steps and emit boundaries.

    Args:
        emit: Called at each boundary, in the thread that reached it.
        wants: Whether an optimizer belongs to the watched loop; others are not counted.
    """

    def __init__(self, emit: Emit, wants: Callable[[torch.optim.Optimizer], bool]) -> None:
        self.step = 0
        self.calls = 0
        self.num_calls = 0
        self._emit = emit
        self._wants = wants
        self._depth = 0
        self._backward_depth = 0
        self._running: list[torch.optim.Optimizer] = []
        self._roots: dict[int, list[Callable[[], None]]] = {}
        self._undo: list[Callable[[], None]] = []
        self._scaled: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._steps_of: dict[int, int] = {}

    @property
    def inside(self) -> bool:
        """Whether a root call or an update is running."""
        return self._depth > 0 or bool(self._running)

    def install(self) -> None:
        """Hook optimizers, `backward` and GradScaler."""
        pre = register_optimizer_step_pre_hook(self._step_start)
        post = register_optimizer_step_post_hook(self._step_end)
        self._undo += [pre.remove, post.remove]
        self._wrap(torch.autograd, "backward", self._backward)
        self._wrap(GradScaler, "step", self._scaler_step)
        self._wrap(GradScaler, "scale", self._scaler_scale)
        self._wrap(torch.nn.Module, "compile", self._module_compile)

    def remove(self) -> None:
        """Leave everything as it was before `install` and `attach`."""
        for key in list(self._roots):
            self._detach(key)
        while self._undo:
            self._undo.pop()()
        self._scaled.clear()

    def attach(self, root: torch.nn.Module) -> None:
        """Hook a root module; a second call for the same one does nothing."""
        if id(root) in self._roots:
            return
        pre = root.register_forward_pre_hook(self._forward_start, prepend=True, with_kwargs=True)
        post = root.register_forward_hook(self._forward_end, always_call=True)
        undo: list[Callable[[], None]] = [pre.remove, post.remove]
        self._roots[id(root)] = undo
        self._wrap_compiled(root)

    def detach(self, root: torch.nn.Module) -> None:
        """Unhook a root module."""
        self._detach(id(root))

    def _detach(self, key: int) -> None:
        for undo in self._roots.pop(key, ()):
            undo()

    def _wrap(self, holder: Any, name: str, wrapper: Callable[..., Any]) -> None:
        original = getattr(holder, name)

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return wrapper(original, *args, **kwargs)

        wrapped.__name__, wrapped.__doc__ = name, original.__doc__
        wrapped.__wrapped__ = original  # type: ignore[attr-defined]
        setattr(holder, name, wrapped)
        self._undo.append(lambda: setattr(holder, name, original))

    def _module_compile(self, original: Any, module: Any, *args: Any, **kwargs: Any) -> None:
        original(module, *args, **kwargs)
        if id(module) in self._roots:
            self._wrap_compiled(module)

    def _wrap_compiled(self, root: torch.nn.Module) -> None:
        # After `module.compile()` a call goes to this attribute, and hooks are traced away.
        compiled: Any = root._compiled_call_impl
        if compiled is None:
            return

        def call(*args: Any, **kwargs: Any) -> Any:
            self._enter(args, kwargs)
            try:
                return compiled(*args, **kwargs)
            finally:
                self._leave()

        root._compiled_call_impl = call

        def undo() -> None:
            if root._compiled_call_impl is call:
                root._compiled_call_impl = compiled

        self._roots[id(root)].append(undo)

    def _forward_start(self, _module: Any, args: Any, kwargs: Any) -> None:
        if not torch.compiler.is_compiling():
            self._enter(args, kwargs)

    def _forward_end(self, _module: Any, _args: Any, _output: Any) -> None:
        if not torch.compiler.is_compiling():
            self._leave()

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
                updating=tuple(self._running),
            )
            self._emit(Boundary.FORWARD_START, moment)
        except BaseException:
            # The hook's error leaves the call: `_forward_end` would not see it.
            self._depth -= 1
            raise

    def _leave(self) -> None:
        if self._depth == 0:
            return
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
        self._running.append(optimizer)
        if len(self._running) > 1:
            return
        try:
            moment = Moment(step=self.step, optimizer=optimizer, forward_seen=self.calls > 0)
            self._emit(Boundary.STEP_START, moment)
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
        # An error inside `step` leaves its entry behind; the outermost one that ends is the truth.
        if optimizer in self._running:
            del self._running[self._running.index(optimizer) :]
        if self._running:
            return
        self._steps_of[id(optimizer)] = self._steps_of.get(id(optimizer), 0) + 1
        moment = Moment(step=self.step, optimizer=optimizer, skipped=skipped)
        self.step += 1
        self.calls = 0
        self._scaled.clear()
        self._emit(Boundary.STEP_END, moment)

"""Calls become boundaries: forward_start, forward_end, backward_end, step_start, step_end.

The calls of root modules are surrounded, every optimizer has the global step hooks; `backward` and
`GradScaler.step` are wrapped while installed. Nothing is hooked inside compiled regions.
"""

from __future__ import annotations

import functools
import threading
from contextlib import contextmanager, nullcontext
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
from everybit.guard.root_call import RootCall, repeating
from everybit.guard.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    Emit = Callable[[Boundary, Moment], None]
    Position = tuple[int, int, int, bool, dict[int, int]]

_CLIPS = (
    torch.nn.utils.clip_grad_norm_,
    torch.nn.utils.clip_grad_value_,
    torch.nn.utils.clip_grads_with_norm_,
)


class Boundaries:
    """Count steps and emit boundaries.

    Args:
        emit: Called at each boundary, in the thread that reached it.
        wants: Whether an optimizer belongs to the watched loop; others are not counted.
        abandon: Called with an optimizer whose step was left by an error, before the next boundary.
        trains: Whether any optimizer is known: if not, calls that want no gradients are steps.

    Attributes:
        step: Updates finished or skipped so far.
        around: Makes what root calls and backward passes run within.
    """

    def __init__(
        self,
        emit: Emit,
        wants: Callable[[torch.optim.Optimizer], bool],
        abandon: Callable[[torch.optim.Optimizer], None],
        trains: Callable[[], bool],
    ) -> None:
        self.step = 0
        self.calls = 0
        self.num_calls = 0
        self._emit = emit
        self._wants = wants
        self._trains = trains
        self.lock = threading.RLock()
        self._threads = Threads(abandon)
        self._used = False
        self._nested = threading.local()
        self._writing: list[int] = []
        self._roots: dict[int, RootCall] = {}
        self._called: set[int] = set()
        self._patches = Patches()
        self._hooks: list[Any] = []
        self._scaled: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._steps_of: dict[int, int] = {}
        self._scaler: Any = None
        self.around: Callable[[], AbstractContextManager[Any]] = nullcontext

    @property
    def inside(self) -> bool:
        """Whether a root call or an update is running in any thread."""
        return self._threads.inside

    def position(self) -> Position:
        """Return how far the loop has come."""
        return (self.step, self.calls, self.num_calls, self._used, dict(self._steps_of))

    def go_back(self, position: Position) -> None:
        """Count from an earlier position on: what came since is computed again."""
        self.step, self.calls, self.num_calls, self._used, steps_of = position
        self._steps_of = dict(steps_of)
        self._scaled.clear()

    def install(self) -> None:
        """Hook optimizers, `backward` and GradScaler."""
        self._hooks = [
            register_optimizer_step_pre_hook(self._step_start),
            register_optimizer_step_post_hook(self._step_end),
        ]
        self._patches.wrap(torch.autograd, "backward", self._backward)
        self._patches.wrap(GradScaler, "step", self._scaler_step)
        self._patches.wrap(GradScaler, "scale", self._scaler_scale)
        self._patches.wrap(GradScaler, "_unscale_grads_", self._rewrite)
        # Scalers of others call this one; it moves no version counter.
        self._patches.wrap(torch, "_amp_foreach_non_finite_check_and_unscale_", self._rewrite)
        for clip in _CLIPS:
            self._patches.wrap_inside(clip, self._rewrite)
        self._patches.wrap(torch.nn.Module, "compile", self._module_compile)
        self._patches.wrap(torch.nn.utils.stateless, "_functional_call", self._functional_call)
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
            self._called.discard(id(root))
            self._roots[id(root)] = RootCall(root, self._enter, self._leave, self._within)

    def detach(self, root: torch.nn.Module) -> None:
        """Leave a root module's calls alone again."""
        call = self._roots.pop(id(root), None)
        if call is not None:
            call.remove()

    def is_called(self, root: torch.nn.Module) -> bool:
        """Whether a module whose calls are surrounded was called since."""
        return id(root) in self._called

    def _module_compile(self, original: Any, module: Any, *args: Any, **kwargs: Any) -> None:
        original(module, *args, **kwargs)
        call = self._roots.get(id(module))
        if call is not None:
            call.install()

    def _functional_call(
        self,
        original: Any,
        module: Any,
        parameters: Any,
        args: Any = None,
        kwargs: Any = None,
        **options: Any,
    ) -> Any:
        """Surround the call of a root with other tensors in the place of its own.

        What is given is made of its own, mostly: these are tested before they make way.
        """
        call = self._roots.get(id(module))
        if call is None or not call.surrounds(module) or torch.compiler.is_compiling():
            return original(module, parameters, args, kwargs, **options)
        given = args if isinstance(args, tuple) else () if args is None else (args,)
        return call.surround(
            lambda: original(module, parameters, args, kwargs, **options), given, kwargs or {}
        )

    def _enter(self, root: torch.nn.Module, args: Any, kwargs: Any) -> None:
        with self.lock:
            self._called.add(id(root))
            if not self._threads.enter():
                return
            grad = torch.is_grad_enabled()
            try:
                moment = Moment(
                    step=self.step,
                    call=self.calls,
                    args=args,
                    kwargs=kwargs,
                    used=self._used,
                    updating=self._threads.updating(),
                    alone=self._threads.alone,
                    differentiable=grad,
                    root=root,
                    evaluating=self._is_evaluating(root),
                )
                self._emit(Boundary.FORWARD_START, moment)
            except BaseException:
                self._threads.leave()
                raise
            self.calls += grad
            self._used |= grad

    def _leave(self, root: torch.nn.Module, returned: tuple[Any, ...]) -> None:
        with self.lock:
            if not self._threads.leave():
                return
            self.num_calls += 1
            alone = self._threads.alone
            moment = Moment(
                step=self.step,
                updating=self._threads.updating(),
                alone=alone,
                root=root,
                evaluating=bool(returned) and self._is_evaluating(root),
                outputs=returned,
            )
            self._emit(Boundary.FORWARD_END, moment)
            if moment.evaluating:
                end = Moment(step=self.step, alone=alone, evaluating=True)
                self._next_step()
                self._emit(Boundary.STEP_END, end)

    def _within(self, outermost: bool = True) -> AbstractContextManager[Any]:
        return self.around() if outermost and self._threads.alone else nullcontext()

    def _is_evaluating(self, root: torch.nn.Module) -> bool:
        """Whether a call is a step: it is no part of a training loop that is yet to begin."""
        return not self._trains() and not (torch.is_grad_enabled() and root.training)

    def _next_step(self) -> None:
        self.step += 1
        self.calls = 0
        self._used = False
        self._scaled.clear()

    def _backward(self, original: Any, tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or (repeating(anywhere=True) and _in_autograd()):
            return original(tensors, *args, **kwargs)
        depth = getattr(self._nested, "depth", 0)
        if _in_autograd():
            depth += 1  # Within another one, in a thread of autograd's own.
        losses: tuple[torch.Tensor, ...] = ()
        if depth == 0:
            roots = (tensors,) if isinstance(tensors, torch.Tensor) else tuple(tensors)
            losses = tuple(self._unscaled(t) for t in roots if isinstance(t, torch.Tensor))
            self._emit_now(Boundary.BACKWARD_START, losses=losses)
        self._nested.depth = depth + 1
        try:
            with self._writing_gradients(), self._within(depth == 0):
                result = original(tensors, *args, **kwargs)
        finally:
            self._nested.depth = depth
        if depth == 0:
            self._emit_now(Boundary.BACKWARD_END, losses=losses)
        return result

    def _rewrite(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        """Surround what rewrites gradients in place on purpose."""
        depth = getattr(self._nested, "rewrites", 0)
        if depth or torch.compiler.is_compiling():
            return original(*args, **kwargs)
        self._emit_now(Boundary.REWRITE_START)
        self._nested.rewrites = 1
        try:
            with self._writing_gradients():
                return original(*args, **kwargs)
        finally:
            self._nested.rewrites = 0
            self._emit_now(Boundary.REWRITE_END)

    @contextmanager
    def _writing_gradients(self) -> Iterator[None]:
        me = threading.get_ident()
        with self.lock:
            self._writing.append(me)
        try:
            yield
        finally:
            with self.lock:
                self._writing.remove(me)

    def _others_write_gradients(self) -> bool:
        me = threading.get_ident()
        return any(thread != me for thread in self._writing)

    def _emit_now(self, boundary: Boundary, **facts: Any) -> None:
        with self.lock:
            moment = Moment(
                step=self.step,
                alone=self._threads.alone,
                gradients_alone=not self._others_write_gradients(),
                **facts,
            )
            self._emit(boundary, moment)

    def _unscaled(self, tensor: torch.Tensor) -> torch.Tensor:
        scaled, original = self._scaled.pop(id(tensor), (None, None))
        return original if scaled is tensor and original is not None else tensor

    def _scaler_scale(self, original: Any, scaler: Any, outputs: Any) -> Any:
        result = original(scaler, outputs)
        if isinstance(outputs, torch.Tensor) and result is not outputs:
            self._scaled[id(result)] = (result, outputs)
        return result

    def _scaler_step(
        self, original: Any, scaler: Any, optimizer: Any, *args: Any, **kwargs: Any
    ) -> Any:
        before = self._steps_of.get(id(optimizer), 0)
        self._scaler = scaler if scaler.is_enabled() else None
        try:
            result = original(scaler, optimizer, *args, **kwargs)
            wanted = scaler.is_enabled() and self._wants(optimizer)
            if wanted and self._steps_of.get(id(optimizer), 0) == before:
                self._begin(optimizer, skipped=True)
                self._finish(optimizer, skipped=True)
        finally:
            self._scaler = None
        return result

    def _step_start(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return None
        self._begin(optimizer, skipped=_is_skipped(optimizer))
        return self._with_closure(optimizer, args, kwargs)

    def _with_closure(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        """Return the arguments of `step` with its closure surrounded; None where there is none."""
        closure = kwargs.get("closure") or (args[1] if len(args) > 1 else None)
        if not callable(closure) or not self._wants(optimizer):
            return None

        @functools.wraps(closure)
        def surrounded(*given: Any, **named: Any) -> Any:
            result = closure(*given, **named)
            self._emit_now(Boundary.CLOSURE_END, optimizer=optimizer)
            return result

        if "closure" in kwargs:
            return args, {**kwargs, "closure": surrounded}
        return (args[0], surrounded, *args[2:]), kwargs

    def _begin(self, optimizer: Any, *, skipped: bool | torch.Tensor) -> None:
        with self.lock:
            if not self._wants(optimizer) or not self._threads.begin(optimizer):
                return
            try:
                moment = Moment(
                    step=self.step,
                    optimizer=optimizer,
                    skipped=skipped,
                    scaler=self._scaler,
                    used=self._used or self.num_calls == 0,
                    alone=self._threads.alone,
                    gradients_alone=not self._others_write_gradients(),
                )
                self._emit(Boundary.STEP_START, moment)
            except BaseException:
                self._threads.end(optimizer)
                raise

    def _step_end(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if not torch.compiler.is_compiling():
            self._finish(optimizer, skipped=_is_skipped(optimizer))

    def _finish(self, optimizer: Any, *, skipped: bool | torch.Tensor) -> None:
        with self.lock:
            if not self._wants(optimizer) or not self._threads.end(optimizer):
                return
            self._steps_of[id(optimizer)] = self._steps_of.get(id(optimizer), 0) + 1
            moment = Moment(
                step=self.step,
                optimizer=optimizer,
                skipped=skipped,
                scaler=self._scaler,
                alone=self._threads.alone,
            )
            self._next_step()
            self._emit(Boundary.STEP_END, moment)


def _is_skipped(optimizer: Any) -> bool | torch.Tensor:
    """Whether a fused optimizer skips this step: the scaler tells it so, during the call."""
    found_inf = getattr(optimizer, "found_inf", None)
    if not isinstance(found_inf, torch.Tensor):
        return False
    skipped = found_inf.detach() > 0
    return bool(skipped.numpy()) if found_inf.device.type == "cpu" else skipped


def _in_autograd() -> bool:
    return torch._C._current_autograd_node() is not None


def _replica(original: Any, module: torch.nn.Module) -> Any:
    replica = original(module)
    if isinstance(replica.__dict__.get("_compiled_call_impl"), RootCall):
        del replica.__dict__["_compiled_call_impl"]
    return replica

"""See what a script trains, and damage it, from outside: the script stays as people write it."""

from __future__ import annotations

import functools
import os
import random
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.amp.grad_scaler import GradScaler
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data.dataloader import _BaseDataLoaderIter

from everybit.core.change import changes_between
from everybit.inject import TargetKind, list_targets
from everybit.inject.memory import read_elements, write_elements

if TYPE_CHECKING:
    from collections.abc import Iterator

GRADIENT = "gradient"
#: Updates between a checkpoint and the kill.
UPDATES_BEHIND = 3
_WRAPPERS = ("DistributedDataParallel", "DataParallel", "OptimizedModule")


@dataclass(kw_only=True)
class Plan:
    """A flip to plant.

    Attributes:
        kind: `weight`, `buffer`, `state` or `gradient`.
        step: Updates before it.
        after: The moment: `step`, `backward`, or `call` (right before a root module is called).
        seed: Chooses tensor, element and bit.
        bit: The bit; drawn where None.
    """

    kind: str
    step: int
    after: str = "step"
    seed: int = 0
    bit: int | None = None


@dataclass(kw_only=True)
class Truth:
    """What a planted flip really did, plain data.

    Attributes:
        kind: As planned.
        step: Updates before it.
        parameter: state_dict key.
        tensor: Name of the optimizer state tensor, "" for others.
        element: Flat index.
        bit: The flipped bit.
        before: The value.
        after: The value it became.
        names: state_dict keys of all tensors in the same memory.
    """

    kind: str
    step: int
    parameter: str
    tensor: str
    element: int
    bit: int
    before: str
    after: str
    names: list[str] = field(default_factory=list)


class Witness:
    """Holds on to every module and optimizer that is built; plants flips at their moments.

    Install it before a Guard begins: its hooks on updates come when the first optimizer is built,
    after the Guard's, so that a flip lies where nobody looks until the next use.

    Args:
        plans: Flips to plant.
        kill_behind: A checkpoint: some updates after it was written, the process is killed.
    """

    def __init__(self, plans: list[Plan], *, kill_behind: str = "") -> None:
        self.truths: list[Truth] = []
        self.losses: list[torch.Tensor] = []
        self.batches: list[torch.Tensor] = []
        self.updates = 0
        self._plans = list(plans)
        self._modules: dict[int, torch.nn.Module] = {}
        self._optimizers: dict[int, torch.optim.Optimizer] = {}
        self._hooked = False
        self._fresh: set[int] = set()
        self._last: dict[int, int] = {}
        self._depth = 0
        self._skipped = False
        self._called: dict[int, torch.nn.Module] = {}
        self._kill_behind = kill_behind
        self._since = 0

    def install(self) -> None:
        """Begin."""
        for name in ("__init__", "__setstate__"):
            _after(torch.nn.Module, name, self._built)
        _after(torch.optim.Optimizer, "__init__", self._optimizer_built)
        self._listen_to_loaders()
        backward = torch.Tensor.backward

        @functools.wraps(backward)
        def noted(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> None:
            self.losses.append(tensor.detach().clone())
            before = self._gradients()
            backward(tensor, *args, **kwargs)
            self._fresh = {key for key, now in self._gradients().items() if before[key] != now}
            self._reach("backward")

        torch.Tensor.backward = noted  # type: ignore[method-assign]
        if any(plan.after == "call" for plan in self._plans):
            call = torch.nn.Module.__call__

            @functools.wraps(call)
            def called(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
                if self._depth:
                    return call(module, *args, **kwargs)
                self._called[id(module)] = module
                if any(module is root for root in self._roots()):
                    self._reach("call")
                self._depth += 1
                try:
                    return call(module, *args, **kwargs)
                finally:
                    self._depth -= 1
                    if not self._optimizers:
                        self._stepped(None)  # With no optimizer a call is a step.

            torch.nn.Module.__call__ = called  # type: ignore[method-assign]
        scaler_step = GradScaler.step

        @functools.wraps(scaler_step)
        def stepped(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            before = self.updates
            result = scaler_step(scaler, optimizer, *args, **kwargs)
            if self.updates == before and scaler.is_enabled():
                self.updates += 1
                self._skipped = True
            return result

        GradScaler.step = stepped  # type: ignore[method-assign]
        # A flip within the Guard's view of a skipped step would be in the step, not behind it.
        _after(GradScaler, "update", self._updated)

    def everything(self) -> list[torch.Tensor]:
        """Return all parameters, buffers and optimizer state, in the order they were built."""
        found: dict[int, torch.Tensor] = {}
        for module in self._modules.values():
            for holder in (module._parameters, module._buffers):
                for value in holder.values():
                    if value is not None:
                        found.setdefault(id(value), value)
        for optimizer in self._optimizers.values():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    found.setdefault(id(parameter), parameter)
            # In the order of the parameters: a loaded state is put together in another one.
            held = [p for group in optimizer.param_groups for p in group["params"]]
            held = [p for p in held if p in optimizer.state]
            rest = [key for key in optimizer.state if not isinstance(key, torch.Tensor)]
            for key in (*held, *rest):
                for name in sorted(optimizer.state[key], key=str):
                    for value in _tensors(optimizer.state[key][name]):
                        found.setdefault(id(value), value)
        return [value.detach().clone() for value in found.values()]

    def _listen_to_loaders(self) -> None:
        """Keep what every loader of the process delivers, in order."""
        following = _BaseDataLoaderIter.__next__

        @functools.wraps(following)
        def delivered(iterator: Any) -> Any:
            batch = following(iterator)
            self.batches += [value.detach().clone() for value in _tensors(batch)]
            return batch

        _BaseDataLoaderIter.__next__ = delivered  # type: ignore[method-assign]

    def _built(self, module: torch.nn.Module) -> None:
        self._modules.setdefault(id(module), module)

    def _optimizer_built(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizers.setdefault(id(optimizer), optimizer)
        if not self._hooked:
            self._hooked = True
            register_optimizer_step_post_hook(lambda stepped, *_: self._stepped(stepped))

    def _updated(self, _scaler: Any) -> None:
        if self._skipped:
            self._skipped = False
            self._reach("step")

    def _stepped(self, optimizer: Any) -> None:
        self.updates += 1
        self._last[id(optimizer)] = self.updates
        self._reach("step")
        if self._kill_behind and _holds_files(Path(self._kill_behind)):
            self._since += 1
            if self._since == UPDATES_BEHIND:
                os.kill(os.getpid(), signal.SIGKILL)

    def _reach(self, moment: str) -> None:
        for plan in [p for p in self._plans if p.after == moment and p.step == self.updates]:
            self._plans.remove(plan)
            self._plant(plan)

    def _gradients(self) -> dict[int, tuple[int, int]]:
        """Return what tells whether a gradient was written, by parameter."""
        told = {}
        for optimizer in self._optimizers.values():
            for group in optimizer.param_groups:
                for p in group["params"]:
                    told[id(p)] = (id(p.grad), 0 if p.grad is None else p.grad._version)
        return told

    def _roots(self) -> list[torch.nn.Module]:
        """Return the outermost modules that hold what is trained; else those that are called."""
        if not self._optimizers:
            return list(self._called.values())
        wanted = {
            id(p) for o in self._optimizers.values() for g in o.param_groups for p in g["params"]
        }
        inner = {id(c) for m in self._modules.values() for c in m._modules.values()}
        return [
            module
            for module in self._modules.values()
            if id(module) not in inner
            and "_parameters" in module.__dict__
            and any(id(p) in wanted for p in module.parameters())
        ]

    def _plant(self, plan: Plan) -> None:
        late = self.updates - len(self._optimizers) - 2
        # One that has not stepped for long is one that the program has let go of.
        stepping = [o for o in self._optimizers.values() if self._last.get(id(o), 0) >= late]
        targets = list_targets(*self._roots(), *stepping)
        wanted = TargetKind.WEIGHT if plan.kind == GRADIENT else TargetKind(plan.kind)
        chosen = []
        for target in targets:
            value: torch.Tensor | None = target.value
            if target.kind is not wanted:
                continue
            if plan.kind == GRADIENT:
                # Those of the backward pass that has just ended: others may never be used.
                value = target.value.grad if id(target.value) in self._fresh else None
            if value is not None and value.numel() and value.layout is torch.strided:
                chosen.append((target, value))
        if not chosen:
            raise LookupError(f"no {plan.kind} to plant a flip in")
        rng = random.Random(plan.seed)
        target, value = rng.choice(chosen)
        element = rng.randrange(value.numel())
        size = value.element_size()
        bit = plan.bit if plan.bit is not None else rng.randrange(8 * size)
        before = read_elements(value, [element])[0]
        word = int.from_bytes(before, "little") ^ (1 << bit)
        after = word.to_bytes(size, "little")
        write_elements(value, [element], [after])
        (change,) = changes_between(str(value.dtype).removeprefix("torch."), before, after, element)
        names = [
            name
            for module in self._roots()
            for name, other in module.named_parameters(remove_duplicate=False)
            if other is target.value
        ]
        self.truths.append(
            Truth(
                kind=plan.kind,
                step=plan.step,
                parameter=target.parameter,
                tensor=target.tensor,
                element=element,
                bit=bit,
                before=repr(change.before),
                after=repr(change.after),
                names=names,
            )
        )


def _after(kind: Any, name: str, then: Any) -> None:
    original = getattr(kind, name)

    @functools.wraps(original)
    def method(obj: Any, *args: Any, **kwargs: Any) -> None:
        original(obj, *args, **kwargs)
        then(obj)

    setattr(kind, name, method)


def _holds_files(path: Path) -> bool:
    return path.is_file() or any(each.is_file() for each in path.rglob("*"))


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)

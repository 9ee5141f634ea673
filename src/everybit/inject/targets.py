"""The tensors that a fault can hit: parameters, buffers and optimizer state, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from everybit.core.errors import UsageError
from everybit.core.fault import Fault, TargetKind
from everybit.core.observation import unique_name

if TYPE_CHECKING:
    from collections.abc import Iterator

_WRAPPERS = frozenset({"DistributedDataParallel", "DataParallel", "OptimizedModule"})

#: What faults are planted in: modules, optimizers, or plain tensors by name.
Holder = nn.Module | torch.optim.Optimizer | Mapping[str, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Target:
    """One tensor and its names, as a finding tells them.

    Attributes:
        kind: Weight, buffer, optimizer state or gradient.
        parameter: state_dict key.
        module: Type of the root module, where it is not the first (`Linear`, `Linear#1`); else "".
        tensor: Name of the optimizer state tensor, else "".
        optimizer: `AdamW`, `AdamW#1` for a second one of the class; else "".
        value: The tensor itself.
    """

    kind: TargetKind
    parameter: str
    module: str = ""
    tensor: str = ""
    optimizer: str = ""
    value: Tensor

    @property
    def address(self) -> str:
        """One text for all names: `fc.weight`, `fc.weight:exp_avg`, `Linear/weight:exp_avg`."""
        name = f"{self.module}/{self.parameter}" if self.module else self.parameter
        return f"{name}:{self.tensor}" if self.tensor else name


def list_targets(*holders: Holder) -> list[Target]:
    """Return every tensor of the holders in a fixed order: modules, then optimizers.

    Names are those that a Guard uses: wrappers (DistributedDataParallel, torch.compile) do not
    show in them, and a tensor that has several names is listed under its first.

    Raises:
        UsageError: Something is neither a module, an optimizer nor a mapping of tensors.
    """
    return list(_targets(holders, once=True))


def find_target(fault: Fault, *holders: Holder) -> Target:
    """Return the tensor that a fault names.

    Raises:
        UsageError: There is none, or it has fewer elements than the fault names.
    """
    wanted = TargetKind.WEIGHT if fault.kind is TargetKind.GRADIENT else fault.kind
    for target in _targets(holders, once=False):
        same = (target.kind, target.parameter, target.module, target.tensor) == (
            wanted,
            fault.parameter,
            fault.module,
            fault.tensor,
        )
        if same and fault.kind is TargetKind.GRADIENT:
            if target.value.grad is None:
                break
            return replace(target, kind=fault.kind, value=target.value.grad)
        if same and fault.optimizer in ("", target.optimizer):
            return target
    name = f"{fault.parameter}:{fault.tensor}" if fault.tensor else fault.parameter
    todo = "names are state_dict keys; `everybit.inject.list_targets` lists them"
    if fault.kind is TargetKind.STATE:
        todo += " (optimizer state exists from the first update on)"
    elif fault.kind is TargetKind.GRADIENT:
        todo += " (gradients exist from the backward pass to the update)"
    raise UsageError(f"no {fault.kind} {name!r} to plant a fault in", todo=todo)


def _targets(holders: Sequence[Holder], *, once: bool) -> Iterator[Target]:
    seen: set[int] = set()
    labels: list[str] = []
    names: dict[int, tuple[str, str]] = {}
    modules: list[Mapping[str, Tensor] | nn.Module] = []
    optimizers: list[torch.optim.Optimizer] = []
    for holder in holders:
        if isinstance(holder, torch.optim.Optimizer):
            optimizers.append(holder)
        elif isinstance(holder, (nn.Module, Mapping)):
            modules.append(holder)
        else:
            raise UsageError(
                f"cannot plant a fault in a {type(holder).__name__}",
                todo="give modules, optimizers, or a mapping of names to tensors",
            )
    for module in modules:
        inner = unwrapped(module) if isinstance(module, nn.Module) else module
        label = unique_name(type(inner).__name__, labels) if labels else ""
        labels.append(label)
        for kind, key, value in _named(inner):
            names.setdefault(id(value), (key, label))
            if once and id(value) in seen:
                continue
            seen.add(id(value))
            yield Target(kind=kind, parameter=key, module=label, value=value)
    yield from _states(optimizers, names)


def _named(holder: nn.Module | Mapping[str, Tensor]) -> Iterator[tuple[TargetKind, str, Tensor]]:
    if isinstance(holder, Mapping):
        for key, value in holder.items():
            if isinstance(value, Tensor):
                yield TargetKind.WEIGHT, key, value
        return
    stack = [("", holder)]
    while stack:
        prefix, module = stack.pop()
        for key, parameter in module._parameters.items():
            if parameter is not None:
                yield TargetKind.WEIGHT, prefix + key, parameter
        for key, buffer in module._buffers.items():
            if buffer is not None:
                yield TargetKind.BUFFER, prefix + key, buffer
        children = [
            (f"{prefix}{key}.", unwrapped(child))
            for key, child in module._modules.items()
            if child is not None
        ]
        stack += reversed(children)


def unwrapped(module: nn.Module) -> nn.Module:
    """Return the model within wrappers: DistributedDataParallel, torch.compile."""
    while type(module).__name__ in _WRAPPERS:
        children = module._modules
        inner = children.get("_orig_mod", children.get("module"))
        if inner is None:
            return module
        module = inner
    return module


def _states(
    optimizers: Sequence[torch.optim.Optimizer], names: dict[int, tuple[str, str]]
) -> Iterator[Target]:
    labels: list[str] = []
    for optimizer in optimizers:
        label = unique_name(type(optimizer).__name__, labels)
        labels.append(label)
        for group, values in enumerate(optimizer.param_groups):
            for index, parameter in enumerate(values["params"]):
                if parameter not in optimizer.state:
                    continue
                unknown = (f"{label}.group{group}.param{index}", "")
                name, module = names.get(id(parameter), unknown)
                for key, value in _nested(optimizer.state[parameter]):
                    yield Target(
                        kind=TargetKind.STATE,
                        parameter=name,
                        module=module,
                        tensor=key,
                        optimizer=label,
                        value=value,
                    )


def _nested(value: Any, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield prefix, value
        return
    entries: Iterator[tuple[Any, Any]]
    if isinstance(value, Mapping):
        entries = iter(value.items())
    elif isinstance(value, (list, tuple)):
        entries = iter(enumerate(value))
    else:
        return
    for key, item in entries:
        yield from _nested(item, f"{prefix}.{key}" if prefix else str(key))

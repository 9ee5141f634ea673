"""The tensors that a fault can hit: parameters, buffers and optimizer state, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from everybit.core.errors import UsageError
from everybit.core.fault import Fault, TargetKind

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What faults are planted in: modules, optimizers, or plain tensors by name.
Holder = nn.Module | torch.optim.Optimizer | Mapping[str, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Target:
    """One tensor and its names, as a finding tells them.

    Attributes:
        kind: Weight, buffer or optimizer state.
        parameter: state_dict key.
        tensor: Name of the optimizer state tensor, else "".
        optimizer: `AdamW`, `AdamW#1` for a second one of the class; else "".
        value: The tensor itself.
    """

    kind: TargetKind
    parameter: str
    tensor: str = ""
    optimizer: str = ""
    value: Tensor

    @property
    def address(self) -> str:
        """One text for all names: `fc.weight`, or `fc.weight:exp_avg` for optimizer state."""
        return f"{self.parameter}:{self.tensor}" if self.tensor else self.parameter


def list_targets(*holders: Holder) -> list[Target]:
    """Return every tensor of the holders in a fixed order: modules, then optimizers.

    A tensor that has several names is listed under its first. Names of a second module that are
    taken already carry the module's place as prefix (`1.weight`).

    Raises:
        UsageError: Something is neither a module, an optimizer nor a mapping of tensors.
    """
    return list(_targets(holders, once=True))


def find_target(fault: Fault, *holders: Holder) -> Target:
    """Return the tensor that a fault names.

    Raises:
        UsageError: There is none, or it has fewer elements than the fault names.
    """
    for target in _targets(holders, once=False):
        same = (target.kind, target.parameter, target.tensor) == (
            fault.kind,
            fault.parameter,
            fault.tensor,
        )
        if same and fault.optimizer in ("", target.optimizer):
            return target
    name = f"{fault.parameter}:{fault.tensor}" if fault.tensor else fault.parameter
    todo = "names are state_dict keys; `everybit.inject.list_targets` lists them"
    if fault.kind is TargetKind.STATE:
        todo += " (optimizer state exists from the first update on)"
    raise UsageError(f"no {fault.kind} {name!r} to plant a fault in", todo=todo)


def _targets(holders: Sequence[Holder], *, once: bool) -> Iterator[Target]:
    seen: set[int] = set()
    taken: set[str] = set()
    names: dict[int, str] = {}
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
    for place, module in enumerate(modules):
        here: set[str] = set()
        for kind, key, value in _named(module):
            name = f"{place}.{key}" if key in taken else key
            here.add(key)
            names.setdefault(id(value), name)
            if once and id(value) in seen:
                continue
            seen.add(id(value))
            yield Target(kind=kind, parameter=name, value=value)
        taken |= here
    yield from _states(optimizers, names)


def _named(holder: nn.Module | Mapping[str, Tensor]) -> Iterator[tuple[TargetKind, str, Tensor]]:
    if isinstance(holder, Mapping):
        for key, value in holder.items():
            if isinstance(value, Tensor):
                yield TargetKind.WEIGHT, key, value
        return
    for key, parameter in holder.named_parameters(remove_duplicate=False):
        yield TargetKind.WEIGHT, key, parameter
    for key, buffer in holder.named_buffers(remove_duplicate=False):
        yield TargetKind.BUFFER, key, buffer


def _states(optimizers: Sequence[torch.optim.Optimizer], names: dict[int, str]) -> Iterator[Target]:
    count: dict[str, int] = {}
    for optimizer in optimizers:
        kind = type(optimizer).__name__
        number = count.get(kind, 0)
        count[kind] = number + 1
        label = f"{kind}#{number}" if number else kind
        position = -1
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                position += 1
                if parameter not in optimizer.state:
                    continue
                name = names.get(id(parameter), str(position))
                for key, value in _nested(optimizer.state[parameter]):
                    yield Target(
                        kind=TargetKind.STATE,
                        parameter=name,
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

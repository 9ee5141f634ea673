"""The carried tensors of a training loop: parameters, buffers and optimizer state, by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from everybit.core.damage import Role
from everybit.core.observation import state_entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Wrappers whose own level does not appear in a state_dict key of the model inside.
_WRAPPERS = ("_orig_mod", "module")


@dataclass(frozen=True, slots=True, eq=False)
class Tracked:
    """One carried tensor and the place that holds it.

    Attributes:
        role: Parameter, buffer or optimizer state.
        tensor: The tensor itself.
        holder: The mapping it lives in (`module._parameters`, `optimizer.state[p]`).
        key: Its key there.
        parameter: state_dict key of the parameter or buffer.
        module: Name of the root module, None for the first.
        optimizer: For optimizer state, the optimizer's name.
        state: For optimizer state, the tensor's name there.
        owner: Identity of the module that owns a parameter or buffer, 0 for optimizer state.
    """

    role: Role
    tensor: torch.Tensor
    holder: Mapping[Any, Any]
    key: Any
    parameter: str
    module: str | None = None
    optimizer: str | None = None
    state: str | None = None
    owner: int = 0

    @property
    def label(self) -> str:
        """The unique name in the ledger's tables."""
        name = f"{self.module}:{self.parameter}" if self.module else self.parameter
        if self.optimizer is not None and self.state is not None:
            return state_entry(self.optimizer, name, self.state)
        return name

    @property
    def in_place(self) -> bool:
        """Whether the holder still holds this very tensor."""
        return self.holder.get(self.key) is self.tensor


def unwrap(module: torch.nn.Module) -> torch.nn.Module:
    """Return the model inside DistributedDataParallel, DataParallel and torch.compile wrappers."""
    while type(module).__name__ in {
        "DistributedDataParallel",
        "DataParallel",
        "OptimizedModule",
    }:
        inner = next(module._modules[name] for name in _WRAPPERS if name in module._modules)
        assert inner is not None
        module = inner
    return module


def track_module(root: torch.nn.Module, name: str | None) -> Iterator[Tracked]:
    """Yield the parameters and buffers of a root module, each tensor once.

    Args:
        root: The module, wrapped or not.
        name: Name of the root where it is not the first, else None.
    """
    seen: set[int] = set()
    modules: set[int] = set()
    stack = [("", unwrap(root))]
    while stack:
        prefix, module = stack.pop()
        if id(module) in modules:
            continue
        modules.add(id(module))
        for role, holder in (
            (Role.PARAMETER, module._parameters),
            (Role.BUFFER, module._buffers),
        ):
            for key, tensor in holder.items():
                if tensor is None or id(tensor) in seen:
                    continue
                seen.add(id(tensor))
                yield Tracked(role, tensor, holder, key, prefix + key, name, owner=id(module))
        children = [
            (f"{prefix}{key}.", unwrap(child))
            for key, child in module._modules.items()
            if child is not None
        ]
        stack.extend(reversed(children))


def track_optimizer(
    optimizer: torch.optim.Optimizer, name: str, parameters: Mapping[int, Tracked]
) -> Iterator[Tracked]:
    """Yield the state tensors of an optimizer, and its parameters that no module holds.

    Args:
        optimizer: The optimizer.
        name: Its name.
        parameters: Tracked parameters of the modules, by `id` of the tensor.
    """
    for group_index, group in enumerate(optimizer.param_groups):
        for index, parameter in enumerate(group["params"]):
            owner = parameters.get(id(parameter))
            key = f"{name}.group{group_index}.param{index}"
            if owner is None:
                holder = {index: parameter}
                yield Tracked(Role.PARAMETER, parameter, holder, index, key)
            state = optimizer.state.get(parameter)
            if not isinstance(state, dict):
                continue
            for state_name, value in state.items():
                if isinstance(value, torch.Tensor):
                    yield Tracked(
                        Role.STATE,
                        value,
                        state,
                        state_name,
                        owner.parameter if owner else key,
                        owner.module if owner else None,
                        name,
                        str(state_name),
                    )

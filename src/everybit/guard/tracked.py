"""The carried tensors of a training loop: parameters, buffers and optimizer state, by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from everybit.core.damage import Role
from everybit.core.observation import state_entry
from everybit.guard.shards import local_of
from everybit.probe.wrappers import unwrap

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True, eq=False)
class Tracked:
    """One carried tensor and the place that holds it.

    Attributes:
        role: Parameter, buffer or optimizer state.
        tensor: The tensor itself; a DTensor as a whole, its bytes here are those of `local`.
        holder: The mapping or list it lives in (`module._parameters`, `optimizer.state[p]`).
        key: Its key there.
        parameter: state_dict key of the parameter or buffer.
        module: Name of the root module, None for the first.
        optimizer: For optimizer state, the optimizer's name.
        state: For optimizer state, the tensor's name there.
        owner: Identity of the module that owns a parameter or buffer, 0 for optimizer state.
    """

    role: Role
    tensor: torch.Tensor
    holder: Any
    key: Any
    parameter: str
    module: str | None = None
    optimizer: str | None = None
    state: str | None = None
    owner: int = 0

    @property
    def local(self) -> torch.Tensor:
        """The part of it that lies in this process: the tensor itself, but for a DTensor."""
        return local_of(self.tensor)

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
        try:
            return self.holder[self.key] is self.tensor
        except (KeyError, IndexError):
            return False


def parameter_ids(optimizer: torch.optim.Optimizer) -> set[int]:
    """Return the identities of the parameters that an optimizer updates."""
    return {id(p) for group in optimizer.param_groups for p in group["params"]}


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

    Settings of a group that are tensors (a learning rate) count as state; so do tensors within
    lists and mappings of the state (`old_dirs.0` of L-BFGS).

    Args:
        optimizer: The optimizer.
        name: Its name.
        parameters: Tracked parameters of the modules, by `id` of the tensor.
    """
    entries: list[tuple[Any, Any]] = list(optimizer.state.items())
    for key, state in entries:
        if not isinstance(key, torch.Tensor) and isinstance(state, (dict, list)):
            for path, holder, at, value in _tensors_in(state):
                yield Tracked(Role.STATE, value, holder, at, f"{name}.{key}", None, name, path)
    for group_index, group in enumerate(optimizer.param_groups):
        place = f"{name}.group{group_index}"
        for path, holder, key, value in _tensors_in(group, but="params"):
            yield Tracked(Role.STATE, value, holder, key, place, None, name, path)
        for index, parameter in enumerate(group["params"]):
            owner = parameters.get(id(parameter))
            named = owner.parameter if owner else f"{place}.param{index}"
            if owner is None:
                own: dict[int, torch.Tensor] = {index: parameter}
                yield Tracked(Role.PARAMETER, parameter, own, index, named)
            state = optimizer.state.get(parameter)
            if isinstance(state, dict):
                module = owner.module if owner else None
                for path, holder, key, value in _tensors_in(state):
                    yield Tracked(Role.STATE, value, holder, key, named, module, name, path)


def _tensors_in(
    holder: Any, prefix: str = "", *, but: str = ""
) -> Iterator[tuple[str, Any, Any, torch.Tensor]]:
    """Yield `(dotted path, holder, key, tensor)` for the tensors of nested lists and mappings."""
    entries = holder.items() if isinstance(holder, dict) else enumerate(holder)
    for key, value in list(entries):
        path = f"{prefix}{key}"
        if isinstance(value, torch.Tensor):
            yield path, holder, key, value
        elif isinstance(value, (dict, list, tuple)) and (not but or key != but):
            yield from _tensors_in(value, f"{path}.")


def nested_holders(optimizer: torch.optim.Optimizer) -> list[Any]:
    """Return the lists and mappings within the optimizer's state, whose size may change."""
    found: list[Any] = []
    stack: list[Any] = [value for value in optimizer.state.values() if isinstance(value, dict)]
    while stack:
        holder = stack.pop()
        inner = holder.values() if isinstance(holder, dict) else holder
        parts = [part for part in inner if isinstance(part, (dict, list))]
        found += parts
        stack += parts
    return found

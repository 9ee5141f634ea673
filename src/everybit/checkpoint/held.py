"""What a live model holds: its state dict's tensors by name, themselves and not copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

from everybit.core.errors import UsageError
from everybit.probe.memory import why_unreadable
from everybit.probe.wrappers import unwrap

if TYPE_CHECKING:
    from collections.abc import Mapping


#: The last part of the key under which torch keeps a module's extra state.
_EXTRA: Final = "_extra_state"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Held:
    """The tensors of a model under their state_dict keys.

    Attributes:
        tensors: In the model's order.
        same: `{name: first name}` of tensors that share one memory.
        others: Keys whose values are no tensors (extra state).
        parameters: Names of parameters, in the model's order, each tensor once.
        renames: Modules have code of their own that runs in `load_state_dict`.
    """

    tensors: Mapping[str, torch.Tensor]
    same: Mapping[str, str]
    others: tuple[str, ...]
    parameters: tuple[str, ...]
    renames: bool = False

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes by name."""
        return {name: tuple(tensor.shape) for name, tensor in self.tensors.items()}


def held_by(model: torch.nn.Module) -> Held:
    """Return what a model holds, inside its wrappers.

    Raises:
        UsageError: It is no module.
    """
    if not isinstance(model, torch.nn.Module):
        raise UsageError(f"a {type(model).__name__} is no module", where="model")
    model = unwrap(model)
    tensors, others, same = {}, [], {}
    places: dict[object, str] = {}
    for name, value in model.state_dict(keep_vars=True).items():
        # Extra state is made anew at each call: what is written into it goes nowhere.
        if not isinstance(value, torch.Tensor) or name.rpartition(".")[2] == _EXTRA:
            others.append(name)
            continue
        tensors[name] = value
        same[name] = places.setdefault(_place(value), name)
    known = {id(tensor): name for name, tensor in reversed(list(tensors.items()))}
    named = [known.get(id(parameter)) for parameter in model.parameters()]
    return Held(
        tensors=tensors,
        same=same,
        others=tuple(others),
        parameters=tuple(name for name in named if name is not None),
        renames=any(map(_has_own_load, model.modules())),
    )


def _has_own_load(module: torch.nn.Module) -> bool:
    return bool(module._load_state_dict_pre_hooks) or "quantized" in type(module).__module__


def refuse_unwritable(held: Held) -> None:
    """Raise `UsageError` where a tensor has no memory to load into."""
    for name, tensor in held.tensors.items():
        why = why_unreadable(tensor)
        if why:
            raise UsageError(
                f"nothing can be loaded into it: {why}",
                where=name,
                todo='give the model memory first (`model.to_empty(device="cpu")`)'
                if tensor.device.type == "meta"
                else "load into the model before it is sharded or quantised",
            )
        sizes = zip(tensor.shape, tensor.stride(), strict=True)
        if any(size > 1 and not stride for size, stride in sizes):
            raise UsageError(
                "nothing can be loaded into it: several of its elements are one (it was expanded)",
                where=name,
                todo="give it memory of its own (`tensor.clone()`)",
            )


def _place(tensor: torch.Tensor) -> object:
    """Return what is equal for tensors that are one and the same memory."""
    if why_unreadable(tensor) or not tensor.numel():
        return id(tensor)
    return (tensor.data_ptr(), tensor.device, tensor.dtype, tuple(tensor.shape), tensor.stride())

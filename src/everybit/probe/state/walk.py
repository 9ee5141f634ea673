"""What a tree of modules holds: its dictionaries of parameters and buffers, by state_dict key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everybit.probe.wrappers import unwrap

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

#: Attributes of every module that are no state of its own.
_MACHINERY = frozenset(
    {
        "_parameters",
        "_buffers",
        "_modules",
        "_non_persistent_buffers_set",
        "_backward_pre_hooks",
        "_backward_hooks",
        "_is_full_backward_hook",
        "_forward_hooks",
        "_forward_hooks_with_kwargs",
        "_forward_hooks_always_called",
        "_forward_pre_hooks",
        "_forward_pre_hooks_with_kwargs",
        "_state_dict_hooks",
        "_state_dict_pre_hooks",
        "_load_state_dict_pre_hooks",
        "_load_state_dict_post_hooks",
        "_compiled_call_impl",
    }
)
#: Values that cannot be changed in place: to keep the reference is to keep the value.
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A module as it was: what its dictionaries held, and its plain attributes.

    Attributes:
        name: Its qualified name, "" for the root.
        module: The module.
        parameters: What `_parameters` held, None entries included.
        buffers: What `_buffers` held.
        plain: Attributes that are numbers or texts: counters, the training flag.
    """

    name: str
    module: torch.nn.Module
    parameters: dict[str, torch.Tensor | None]
    buffers: dict[str, torch.Tensor | None]
    plain: dict[str, Any]

    @classmethod
    def of(cls, name: str, module: torch.nn.Module) -> Held:
        """Look at a module."""
        plain = {
            key: value
            for key, value in vars(module).items()
            if key not in _MACHINERY and isinstance(value, _PLAIN)
        }
        return cls(name, module, dict(module._parameters), dict(module._buffers), plain)

    def put_back(self) -> None:
        """Let the module hold again what it held; the tensors' own bytes are not touched."""
        _refill(self.module._parameters, self.parameters)
        _refill(self.module._buffers, self.buffers)
        own = vars(self.module)
        for key, value in self.plain.items():
            if key not in own or own[key] is not value:
                own[key] = value


def walk(root: torch.nn.Module) -> Iterator[Held]:
    """Yield every module within a root once, in order of definition, without wrappers."""
    seen: set[int] = set()
    stack = [("", unwrap(root))]
    while stack:
        name, module = stack.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        yield Held.of(name, module)
        children = [
            (f"{name}.{key}" if name else key, unwrap(child))
            for key, child in module._modules.items()
            if child is not None
        ]
        stack.extend(reversed(children))


def _refill(holder: dict[str, Any], wanted: dict[str, Any]) -> None:
    if list(holder) != list(wanted) or any(holder[key] is not wanted[key] for key in wanted):
        holder.clear()
        holder.update(wanted)

"""An optimizer's state and settings as a structure that can be put back."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch

from everybit.core.observation import state_entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from everybit.probe.state.walk import Held

_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
#: Attributes of an optimizer that are captured in their own right.
_OWN = frozenset({"state", "param_groups", "defaults"})


class Nest:
    """A value with the lists, dictionaries and tensors in it, as they were.

    Containers are put back in place: whoever holds them sees the old content again. Tensors are
    put back as objects; their bytes are somebody else's business. Anything else that can be
    changed in place is copied.
    """

    __slots__ = ("_items", "_kept", "_keys", "_value")

    def __init__(self, value: Any) -> None:
        self._value = value
        self._keys: list[Any] = []
        self._items: list[Nest] = []
        self._kept = value
        if isinstance(value, dict):
            self._keys = list(value)
            self._items = [Nest(item) for item in value.values()]
        elif isinstance(value, (list, tuple)):
            self._items = [Nest(item) for item in value]
        elif not isinstance(value, (*_PLAIN, torch.Tensor)):
            self._kept = _copied(value)

    def put_back(self) -> Any:
        """Return the value, with everything in it as it was."""
        value = self._value
        if isinstance(value, dict):
            items = [item.put_back() for item in self._items]
            value.clear()
            value.update(zip(self._keys, items, strict=True))
            return value
        if isinstance(value, list):
            value[:] = [item.put_back() for item in self._items]
            return value
        if isinstance(value, tuple):
            for item in self._items:
                item.put_back()
            return value
        return value if self._kept is value else _copied(self._kept)

    def leaves(self, path: str) -> Iterator[tuple[str, Any]]:
        """Yield `(dotted path, leaf)`."""
        if isinstance(self._value, dict):
            keys: list[Any] = self._keys
        elif isinstance(self._value, (list, tuple)):
            keys = list(range(len(self._items)))
        else:
            yield path, self._kept
            return
        for key, item in zip(keys, self._items, strict=True):
            yield from item.leaves(f"{path}.{key}" if path else str(key))


class OptimizerHeld:
    """An optimizer as it was.

    Args:
        name: Its name.
        optimizer: The optimizer.
    """

    def __init__(self, name: str, optimizer: torch.optim.Optimizer) -> None:
        self.name = name
        self.optimizer = optimizer
        # Keys of the state may be parameters: they are told by identity.
        self._state = [(key, Nest(value)) for key, value in optimizer.state.items()]
        self._groups = [
            ({key: Nest(value) for key, value in group.items() if key != "params"}, group)
            for group in optimizer.param_groups
        ]
        self._parameters = [list(group["params"]) for group in optimizer.param_groups]
        self._plain = {
            key: value
            for key, value in vars(optimizer).items()
            if key not in _OWN and isinstance(value, _PLAIN)
        }

    def put_back(self) -> None:
        """Let the optimizer hold again what it held: state that came later goes."""
        optimizer = self.optimizer
        values = [(key, nest.put_back()) for key, nest in self._state]
        optimizer.state.clear()
        for key, value in values:
            optimizer.state[key] = value
        for (nests, group), parameters in zip(self._groups, self._parameters, strict=True):
            settings = {key: nest.put_back() for key, nest in nests.items()}
            for late in [key for key in group if key not in settings and key != "params"]:
                del group[late]
            group.update(settings)
            if len(group["params"]) != len(parameters) or any(
                now is not then for now, then in zip(group["params"], parameters, strict=True)
            ):
                group["params"][:] = parameters
        optimizer.param_groups[:] = [group for _, group in self._groups]
        vars(optimizer).update(self._plain)

    def leaves(self, known: Mapping[int, tuple[str, str | None]]) -> Iterator[Leaf]:
        """Yield everything in it, in order.

        Args:
            known: state_dict key and root name of parameters, by identity.
        """
        for index, ((nests, _), parameters) in enumerate(
            zip(self._groups, self._parameters, strict=True)
        ):
            place = f"{self.name}.group{index}"
            for key, nest in nests.items():
                for path, value in nest.leaves(str(key)):
                    yield Leaf(f"{place}.{path}", value, place, None, path, is_setting=True)
            for position, parameter in enumerate(parameters):
                if id(parameter) not in known:
                    yield Leaf(f"{place}.param{position}", parameter, place, None, None)
        names = {
            id(parameter): known.get(id(parameter), (f"{self.name}.group{index}.param{at}", None))
            for index, parameters in enumerate(self._parameters)
            for at, parameter in enumerate(parameters)
        }
        for owner, nest in self._state:
            named, module = names.get(id(owner), (f"{self.name}.{_told(owner)}", None))
            label = f"{module}:{named}" if module else named
            for path, value in nest.leaves(""):
                entry = state_entry(self.name, label, path)
                yield Leaf(entry, value, named, module, path or "value")


class Leaf:
    """A tensor or a number of an optimizer, and its place."""

    __slots__ = ("is_setting", "module", "name", "parameter", "tensor", "value")

    def __init__(
        self,
        name: str,
        value: Any,
        parameter: str,
        module: str | None,
        tensor: str | None,
        *,
        is_setting: bool = False,
    ) -> None:
        self.name = name
        self.value = value
        self.parameter = parameter
        self.module = module
        self.tensor = tensor
        self.is_setting = is_setting


def labels_of(name: str, held: list[Held]) -> dict[int, tuple[str, str | None]]:
    """Return the state_dict key and root name of each parameter, by identity.

    Args:
        name: Name of the root, "" for the first.
        held: Its modules.
    """
    found: dict[int, tuple[str, str | None]] = {}
    for each in held:
        prefix = f"{each.name}." if each.name else ""
        for key, tensor in each.parameters.items():
            if tensor is not None:
                found.setdefault(id(tensor), (prefix + key, name or None))
    return found


def _told(key: Any) -> str:
    return f"{type(key).__name__}" if isinstance(key, torch.Tensor) else str(key)


def _copied(value: Any) -> Any:
    """Return a copy of a value that may be changed in place; itself where it cannot be copied."""
    if callable(value):
        return value
    try:
        return copy.deepcopy(value)
    except Exception:
        return value

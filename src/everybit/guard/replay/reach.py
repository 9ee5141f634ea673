"""Python state that a forward pass may move: generators, counters, lists, as far as it is reached.

Reached are the attributes of modules, what they hold (three levels deep), attributes of the
program's own module classes, and the globals that their `forward` names.
"""

from __future__ import annotations

import builtins
import random
import sys
import types
from collections import deque
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import torch

from everybit.probe.generators import is_generator

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Places = tuple[tuple[Any, tuple[str, ...]], ...]

#: Containers with more items are taken by their identity and length.
MAX_ITEMS: Final = 4096
#: Objects that are looked into, over all modules.
MAX_OBJECTS: Final = 1024
_MAX_DEPTH: Final = 3
_CONTAINERS: Final = (list, dict, set, deque)
_NUMBERS: Final = (int, float, bool, str, type(None))
#: What holds nothing that a call could move.
_ATOMS: Final = frozenset(
    {
        *_NUMBERS, complex, bytes, torch.Size, torch.dtype, torch.device, torch.memory_format,
        types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType, type,
        torch.Tensor, torch.nn.Parameter,
    }
)  # fmt: skip
_MISSING: Final = object()


class Reach:
    """Python state as it is now.

    Args:
        parts: Modules.
        attributes: Of each, those that are looked at.
        known: An earlier look: what it reached is looked at too.
    """

    def __init__(
        self,
        parts: Iterable[torch.nn.Module],
        attributes: Iterable[Mapping[str, Any]],
        known: Reach | None = None,
    ) -> None:
        self._held: dict[int, tuple[Any, Any]] = {}
        for each in attributes:
            self._look(each.values(), 0)
        if known is not None:
            self._look([thing for thing, _ in known._held.values()], _MAX_DEPTH)
        self._named: list[tuple[Any, dict[str, Any]]] = []
        for kind in {type(part) for part in parts}:
            for place, names in _places_of(kind):
                found = {name: value for name in names if _is_moved(value := _get(place, name))}
                self._named.append((place, found))
                self._look(found.values(), 0)

    def put_back(self) -> None:
        """Have all of it be as it was when it was looked at."""
        for thing, content in self._held.values():
            _restore(thing, content)
        for place, found in self._named:
            for name, value in found.items():
                if type(value) in _NUMBERS and _get(place, name) is not value:
                    _set(place, name, value)

    def _look(self, values: Iterable[Any], depth: int) -> None:
        for value in values:
            kind = type(value)
            if kind in _ATOMS or id(value) in self._held or len(self._held) >= MAX_OBJECTS:
                continue
            if kind in _CONTAINERS:
                if len(value) > MAX_ITEMS:
                    continue
                self._held[id(value)] = value, value.copy()
                if depth < _MAX_DEPTH and len(value) <= 64:
                    self._look(list(value.values() if kind is dict else value), depth + 1)
            elif is_generator(value):
                self._held[id(value)] = value, _state_of(value)
            elif _is_own(kind):
                self._held[id(value)] = value, dict(vars(value))
                if depth < _MAX_DEPTH:
                    self._look(list(vars(value).values()), depth + 1)


def _restore(thing: Any, content: Any) -> None:
    if isinstance(thing, _CONTAINERS):
        refill(thing, content)
    elif is_generator(thing):
        _set_state(thing, content)
    else:
        now = vars(thing)
        if _differ(now, content):
            now.clear()
            now.update(content)


def refill(container: Any, content: Any) -> None:
    """Give a container the items it had, where it has others now."""
    if isinstance(container, dict):
        same = not _differ(container, content)
    elif isinstance(container, set):
        same = len(container) == len(content) and all(item in container for item in content)
    else:
        same = len(container) == len(content) and all(
            a is b for a, b in zip(container, content, strict=True)
        )
    if same:
        return
    container.clear()
    if isinstance(container, (dict, set)):
        container.update(content)
    else:
        container.extend(content)


def _differ(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return len(one) != len(other) or any(one.get(key, _MISSING) is not other[key] for key in other)


def _state_of(generator: Any) -> Any:
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    if isinstance(generator, random.Random):
        return generator.getstate()
    if hasattr(generator, "bit_generator"):
        return generator.bit_generator.state
    return generator.get_state()


def _set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif not isinstance(generator, torch.Generator) and hasattr(generator, "bit_generator"):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)


def _is_own(kind: type) -> bool:
    """Whether objects of a class are the program's own, with attributes to be moved."""
    known = _OWN.get(kind)
    if known is None:
        known = _OWN[kind] = _looks_own(kind)
    return known


def _looks_own(kind: type) -> bool:
    if issubclass(kind, (torch.nn.Module, torch.Tensor, torch.optim.Optimizer, type)):
        return False
    top = kind.__module__.partition(".")[0]
    if top in sys.stdlib_module_names - {"__main__", "types"} or top in _LIBRARIES:
        return False
    return hasattr(kind, "__dict__") and getattr(kind, "__dictoffset__", 0) != 0


#: What is known of classes; these live as long as the program, mostly.
_OWN: Final[WeakKeyDictionary[type, bool]] = WeakKeyDictionary()
_PLACES: Final[WeakKeyDictionary[type, Places]] = WeakKeyDictionary()
#: Libraries whose objects are left alone.
_LIBRARIES: Final = frozenset({"torch", "numpy", "everybit", "builtins"})


def _places_of(kind: type) -> Places:
    """Return where names live that the forward of a module's class may move: classes, globals."""
    known = _PLACES.get(kind)
    if known is None:
        known = _PLACES[kind] = _places_in(kind)
    return known


def _places_in(kind: type) -> Places:
    found: list[tuple[Any, tuple[str, ...]]] = []
    for each in kind.__mro__:
        if each is object or each.__module__.partition(".")[0] in _LIBRARIES:
            continue
        names = [name for name, value in vars(each).items() if not name.startswith("__")]
        found.append((each, tuple(names)))
        forward = vars(each).get("forward")
        if isinstance(forward, types.FunctionType):
            used = (n for n in forward.__code__.co_names if not hasattr(builtins, n))
            found.append((_Globals(forward.__globals__), tuple(used)))
    return tuple(found)


class _Globals:
    """The globals of a function."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names


def _get(place: Any, name: str) -> Any:
    return (place.names if isinstance(place, _Globals) else vars(place)).get(name, _MISSING)


def _set(place: Any, name: str, value: Any) -> None:
    if isinstance(place, _Globals):
        place.names[name] = value
    else:
        setattr(place, name, value)


def _is_moved(value: Any) -> bool:
    kind = type(value)
    return kind in _CONTAINERS or kind in _NUMBERS or is_generator(value) or _is_own(kind)

"""Plain values of Python, NumPy and torch, made again from what a sidecar says of them.

Each maker gets values that are already restored and checks them before it uses them; what it does
not expect raises `OddError`, and the object stays a record. None runs code of the file's choosing.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import decimal
import fractions
import pathlib
import re
import types
import uuid
from typing import TYPE_CHECKING, Any, Final

import torch

from everybit.checkpoint.restored_numpy import MAKERS as NUMPY_MAKERS
from everybit.checkpoint.restored_numpy import NUMPY_NAMES, OddError
from everybit.checkpoint.restored_torch import MAKERS as TORCH_MAKERS
from everybit.checkpoint.restored_torch import named_constant

if TYPE_CHECKING:
    from collections.abc import Callable

_FRACTION: Final = re.compile(r"-?\d{1,4000}(/\d{1,4000})?")
_MAX_DIGITS: Final = 10_000
#: Types that a name in a checkpoint may stand for.
TYPES: Final[dict[str, type]] = {
    **{
        f"builtins:{kind.__name__}": kind
        for kind in (
            int, float, bool, str, bytes, bytearray, complex, list, tuple, dict, set, frozenset,
            range, slice, object,
        )
    },
    "collections:OrderedDict": collections.OrderedDict,
    "collections:Counter": collections.Counter,
    "collections:defaultdict": collections.defaultdict,
    "collections:deque": collections.deque,
}  # fmt: skip
_FACTORIES: Final = (int, float, bool, str, list, tuple, dict, set, frozenset,
                     collections.OrderedDict, collections.Counter)  # fmt: skip
#: Classes whose objects carry a `__dict__` of their own.
WITH_ATTRIBUTES: Final = (
    argparse.Namespace,
    types.SimpleNamespace,
    collections.OrderedDict,
    collections.Counter,
    torch.Tensor,
)


def named_value(name: str) -> Any:
    """Return what a name stands for, where that is a type or constant known here; else None."""
    return TYPES.get(name) or NUMPY_NAMES().get(name) or named_constant(name)


def make(name: str, args: tuple[Any, ...], kwargs: Any, state: Any) -> Any:
    """Return the object that a known name makes of its arguments.

    Raises:
        OddError: The arguments are not what a pickler writes.
        Exception: They are refused by the type itself.
    """
    if kwargs is not None and kwargs != {}:
        raise OddError("keyword arguments")
    return MAKERS[name](args, state)


def _is(args: tuple[Any, ...], *kinds: Any) -> None:
    """Refuse arguments of other types than these; bool is no int."""
    if len(args) != len(kinds):
        raise OddError("another number of arguments")
    for arg, kind in zip(args, kinds, strict=True):
        if isinstance(arg, bool) or not isinstance(arg, kind):
            raise OddError("an argument of another type")


def _no_state(state: Any) -> None:
    if state is not None:
        raise OddError("a state")


def _with_attributes(kind: Callable[[], Any]) -> Callable[..., Any]:
    def build(args: tuple[Any, ...], state: Any) -> Any:
        _is(args)
        if state is not None and not isinstance(state, dict):
            raise OddError("a state that is no table")
        return kind()  # its attributes follow when all is there

    return build


def _counter(args: tuple[Any, ...], _state: Any) -> Any:
    if args:
        _is(args, dict)
    return collections.Counter(*args)


def _defaultdict(args: tuple[Any, ...], state: Any) -> Any:
    _no_state(state)
    if args and args[0] is not None and args[0] not in _FACTORIES:
        raise OddError("a factory that is no plain type")
    return collections.defaultdict(*args[:1])


def _deque(args: tuple[Any, ...], state: Any) -> Any:
    _no_state(state)
    if len(args) > 1 and args[1] is not None:
        _is(args[1:], int)
    items = args[0] if args else ()
    if not isinstance(items, list | tuple):
        raise OddError("no list of items")
    return collections.deque(items, *args[1:2])


def _of(kind: Callable[..., Any], *choices: tuple[Any, ...]) -> Callable[..., Any]:
    """Return a maker for a type that takes one of some lists of argument types."""

    def build(args: tuple[Any, ...], state: Any) -> Any:
        _no_state(state)
        for kinds in choices:
            if len(kinds) == len(args):
                _is(args, *kinds)
                return kind(*args)
        raise OddError("another number of arguments")

    return build


def _fraction(args: tuple[Any, ...], state: Any) -> Any:
    _no_state(state)
    if len(args) == 1 and isinstance(args[0], str) and _FRACTION.fullmatch(args[0]):
        return fractions.Fraction(args[0])
    _is(args, int, int)
    return fractions.Fraction(*args)


def _decimal(args: tuple[Any, ...], state: Any) -> Any:
    _no_state(state)
    _is(args, str)
    if len(args[0]) > _MAX_DIGITS:
        raise OddError("a decimal number of too many digits")
    return decimal.Decimal(args[0])


def _uuid(args: tuple[Any, ...], state: Any) -> Any:
    _is(args)
    if not isinstance(state, dict) or set(state) != {"int"}:
        raise OddError("a state that is no number")
    return uuid.UUID(int=state["int"])


def _path(name: str) -> Callable[..., Any]:
    kind = getattr(pathlib, name)

    def build(args: tuple[Any, ...], state: Any) -> Any:
        _no_state(state)
        if not all(isinstance(arg, str) for arg in args):
            raise OddError("a part of a path that is no text")
        try:
            return kind(*args)
        except NotImplementedError:  # a path of another system
            return getattr(pathlib, "Pure" + name.removeprefix("Pure"))(*args)

    return build


_OPTIONAL_ZONE: Final = ((bytes,), (bytes, datetime.tzinfo))

#: Makers by name. They are called with the arguments and the state.
MAKERS: Final[dict[str, Callable[..., Any]]] = {
    "builtins:range": _of(range, (int, int, int)),
    "builtins:slice": _of(slice, (object, object, object)),
    "argparse:Namespace": _with_attributes(argparse.Namespace),
    "types:SimpleNamespace": _with_attributes(types.SimpleNamespace),
    "collections:Counter": _counter,
    "collections:defaultdict": _defaultdict,
    "collections:deque": _deque,
    "datetime:date": _of(datetime.date, (bytes,)),
    "datetime:datetime": _of(datetime.datetime, *_OPTIONAL_ZONE),
    "datetime:time": _of(datetime.time, *_OPTIONAL_ZONE),
    "datetime:timedelta": _of(datetime.timedelta, (int, int, int)),
    "datetime:timezone": _of(
        datetime.timezone, (datetime.timedelta,), (datetime.timedelta, str)
    ),
    "decimal:Decimal": _decimal,
    "fractions:Fraction": _fraction,
    "uuid:UUID": _uuid,
    **{
        f"{module}:{name}": _path(name)
        for module in ("pathlib", "pathlib._local")
        for name in (
            "Path", "PosixPath", "WindowsPath", "PurePath", "PurePosixPath", "PureWindowsPath",
        )
    },
    **NUMPY_MAKERS,
    **TORCH_MAKERS,
}  # fmt: skip

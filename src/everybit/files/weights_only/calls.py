"""What a call of an allowed name gives, where it is proved to succeed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol

from everybit.files.pickles.nodes import CallKind, DictNode, ListNode, SetNode, TupleNode
from everybit.files.weights_only.keeping import hash_cost
from everybit.files.weights_only.proof import UnprovedError
from everybit.files.weights_only.rebuilds import REBUILDS, rebuild_from_type
from everybit.files.weights_only.values import ByteArray, Device, Layout, Mapping, Size

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.files.pickles.nodes import Node
    from everybit.files.weights_only.values import Value

_LAYOUTS: Final = frozenset(
    f"torch.{name}"
    for name in ("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")
)
#: Device types that every release since 2.6 knows, on any machine.
_DEVICE: Final = re.compile(r"(cpu|cuda|mps|xpu|meta|xla|hpu|ipu|mtia)(:(0|[1-9][0-9]?))?")
_MAX_INDEX: Final = 99
_MAX_FLOAT_INT: Final = 1 << 53
_BYTE_CODES: Final = ("latin1", "latin-1")


class Budget(Protocol):
    """Pays for copies and hashes."""

    def spend(self, cost: int | None) -> None:
        """Take a cost; raises `UnprovedError` where it is None or nothing is left."""


def call_known(budget: Budget, kind: CallKind, name: str, args: Node) -> Value:
    """Return what a call of an allowed name gives.

    Args:
        budget: Pays for what the call copies.
        kind: REDUCE or NEWOBJ.
        name: The qualified name.
        args: Its arguments.

    Raises:
        UnprovedError: The call raises, or is not proved not to.
    """
    if type(args) is not TupleNode:
        raise UnprovedError(f"calls {name} with what is no tuple")
    items = args.items
    if kind is CallKind.NEWOBJ:
        if name == "collections.OrderedDict" and not items:
            return Mapping("OrderedDict", [])
        if name == "torch.nn.parameter.Parameter":
            return _parameter(budget, items)
        raise UnprovedError(f"makes a {name} by its __new__ alone")
    act = _CALLS.get(name)
    if act is not None:
        return act(budget, items)
    if name == "torch._tensor._rebuild_from_type_v2":
        return rebuild_from_type(items)
    if name == "torch._utils._rebuild_nested_tensor":
        what = "makes a nested tensor, whose sizes stand in its data and not in the pickle"
        raise UnprovedError(what, usual=True)
    rebuild = REBUILDS.get(name)
    if rebuild is None:
        raise UnprovedError("calls what is allowed, with arguments that are not followed")
    return rebuild(items)


# -- collections and values ------------------------------------------------------------------------


def _ordered_dict(budget: Budget, args: list[Value]) -> Value:
    return Mapping("OrderedDict", _pairs(budget, args, "OrderedDict"))


def _counter(budget: Budget, args: list[Value]) -> Value:
    if args and type(args[0]) is not DictNode:
        raise UnprovedError("makes a Counter of what is no dictionary")
    return Mapping("Counter", _pairs(budget, args, "Counter"))


def _pairs(budget: Budget, args: list[Value], what: str) -> list[tuple[Value, Value]]:
    """Return the items that a mapping is made of: a dictionary's, or a list of pairs."""
    if not args:
        return []
    if len(args) > 1:
        raise UnprovedError(f"makes a {what} of several things", proved=True)
    given = args[0]
    if type(given) is DictNode or (type(given) is Mapping and not given.has_attributes):
        budget.spend(len(given.pairs))
        for key, _ in given.pairs:
            budget.spend(hash_cost(key))
        return list(given.pairs)
    if type(given) not in (ListNode, TupleNode):
        raise UnprovedError(f"makes a {what} of what is no list of pairs")
    pairs = []
    for pair in given.items:
        if type(pair) not in (ListNode, TupleNode) or len(pair.items) != 2:
            raise UnprovedError(f"makes a {what} of what are no pairs")
        budget.spend(hash_cost(pair.items[0]))
        pairs.append((pair.items[0], pair.items[1]))
    return pairs


def _set(budget: Budget, args: list[Value]) -> Value:
    if not args:
        return SetNode([])
    if len(args) != 1 or type(args[0]) not in (ListNode, TupleNode, SetNode):
        raise UnprovedError("makes a set of what is no list")
    for item in args[0].items:
        budget.spend(hash_cost(item))
    return SetNode(list(args[0].items))


def _encode(budget: Budget, args: list[Value]) -> Value:
    if len(args) != 2 or type(args[0]) is not str or args[1] not in _BYTE_CODES:
        raise UnprovedError("encodes text otherwise than as Latin-1")
    budget.spend(len(args[0]) // 64)
    try:
        return args[0].encode("latin-1")
    except UnicodeEncodeError:
        what = "encodes text as Latin-1 that is not"
        raise UnprovedError(what, proved=True) from None


def _bytearray(budget: Budget, args: list[Value]) -> Value:
    if not args:
        return ByteArray(0)
    if len(args) == 2:
        args = [_encode(budget, args)]
    if len(args) != 1 or type(args[0]) is not bytes:
        raise UnprovedError("makes a bytearray of what are no bytes")
    budget.spend(len(args[0]) // 64)
    return ByteArray(len(args[0]))


def _complex(_: Budget, args: list[Value]) -> Value:
    if not 1 <= len(args) <= 2 or not all(
        type(arg) is float or (type(arg) is int and abs(arg) < _MAX_FLOAT_INT) for arg in args
    ):
        raise UnprovedError("makes a complex number of what are no two numbers")
    return complex(*args)


def _size(budget: Budget, args: list[Value]) -> Value:
    if not args:
        return Size(())
    if len(args) != 1 or type(args[0]) not in (TupleNode, ListNode):
        raise UnprovedError("makes a torch.Size of what is no tuple")
    budget.spend(len(args[0].items))
    if not all(type(size) is int and -(1 << 62) < size < 1 << 62 for size in args[0].items):
        raise UnprovedError("makes a torch.Size of what are no sizes")
    return Size(tuple(args[0].items))


def _device(_: Budget, args: list[Value]) -> Value:
    if not 1 <= len(args) <= 2 or type(args[0]) is not str or not _DEVICE.fullmatch(args[0]):
        raise UnprovedError("names a device that not every torch knows")
    if len(args) == 2:
        index = args[1]
        if ":" in args[0] or type(index) is not int or not 0 <= index <= _MAX_INDEX:
            raise UnprovedError("names a device with an odd number")
    return Device(args[0].partition(":")[0])


def _layout(_: Budget, args: list[Value]) -> Value:
    if len(args) != 1 or type(args[0]) is not str or args[0] not in _LAYOUTS:
        raise UnprovedError("names a layout that not every torch knows")
    return Layout(args[0].removeprefix("torch."))


def _parameter(_: Budget, args: list[Value]) -> Value:
    if not 1 <= len(args) <= 2:
        raise UnprovedError("makes a Parameter without a tensor")
    requires_grad = args[1] if len(args) == 2 else True
    return REBUILDS["torch._utils._rebuild_parameter"]([args[0], requires_grad, None])


_CALLS: Final[dict[str, Callable[[Budget, list[Value]], Value]]] = {
    "collections.OrderedDict": _ordered_dict,
    "collections.Counter": _counter,
    "builtins.set": _set,
    "builtins.bytearray": _bytearray,
    "builtins.complex": _complex,
    "_codecs.encode": _encode,
    "torch.Size": _size,
    "torch.device": _device,
    "torch.serialization._get_layout": _layout,
    "torch.nn.parameter.Parameter": _parameter,
}

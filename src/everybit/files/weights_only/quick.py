"""The short proof that torch accepts a plain save, from a pickle that was read already.

Most files hold tensors, parameters, ordered dictionaries and plain values, and nothing else. Their
pickle has been followed once, to judge its names; where all of its opcodes are those that torch's
own unpickler shares, what is left to prove are the names, the calls and the storages. What is not
as plain as that is no refusal: `reading` then follows it as torch does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.files.pickles.nodes import Call, CallKind, DictNode, Global, Persistent, TupleNode
from everybit.files.weights_only.allowed import ALLOWED
from everybit.files.weights_only.names import renamed
from everybit.files.weights_only.proof import UnprovedError
from everybit.files.weights_only.rebuilds import REBUILDS
from everybit.files.weights_only.values import Mapping

if TYPE_CHECKING:
    from everybit.files.pickles.nodes import Node, Pickle
    from everybit.files.weights_only.storages import Storages
    from everybit.files.weights_only.values import StorageValue, TensorValue

_ORDERED: Final = "collections.OrderedDict"
_TENSOR: Final = REBUILDS["torch._utils._rebuild_tensor_v2"]
_PARAMETER: Final = REBUILDS["torch._utils._rebuild_parameter"]
_HOOKS: Final = Mapping("OrderedDict", [])
_MAX_ATTRIBUTES: Final = 1_000_000


def proves(pickle: Pickle, storages: Storages) -> bool:
    """Return whether torch is proved to accept a pickle; False says nothing.

    Args:
        pickle: The pickle, as the one machine read it.
        storages: What its persistent ids give.
    """
    if not pickle.shared or pickle.touches or pickle.crosses:
        return False
    names = {id(node): ".".join(renamed(node.module, node.name)) for node in pickle.globals}
    if not ALLOWED.issuperset(names.values()):
        return False
    try:
        stored = {id(node): storages.fetch(node.id) for node in pickle.persistents}
        return _Proof(names, stored).holds(pickle)
    except UnprovedError:
        return False


class _Proof:
    """What the calls of one pickle have been proved to give so far."""

    __slots__ = ("names", "ordered", "stored", "tensors")

    def __init__(self, names: dict[int, str], stored: dict[int, StorageValue]) -> None:
        self.names = names
        self.stored = stored
        self.ordered: set[int] = set()
        self.tensors: dict[int, TensorValue] = {}

    def holds(self, pickle: Pickle) -> bool:
        for call in pickle.calls:
            name = self.names.get(id(call.function))
            if call.kind is not CallKind.REDUCE or name is None or call.items:
                return False
            if type(call.function) is not Global or type(call.args) is not TupleNode:
                return False
            args = call.args.items
            if name == "torch._utils._rebuild_tensor_v2":
                if call.pairs or not self._makes_tensor(call, args):
                    return False
            elif name == _ORDERED and not args:
                self.ordered.add(id(call))
            elif name == "torch._utils._rebuild_parameter":
                if call.pairs or not self._makes_parameter(call, args):
                    return False
            else:
                return False
        num_attributes = 0
        for target, state in pickle.builds:
            if id(target) not in self.ordered or type(state) is not DictNode:
                return False
            num_attributes += len(state.pairs)
        return num_attributes <= _MAX_ATTRIBUTES

    def _makes_tensor(self, call: Call, args: list[Node]) -> bool:
        if len(args) != 6 or type(args[0]) is not Persistent or id(args[5]) not in self.ordered:
            return False
        storage = self.stored[id(args[0])]
        self.tensors[id(call)] = _TENSOR([storage, *args[1:5], _HOOKS])
        return True

    def _makes_parameter(self, call: Call, args: list[Node]) -> bool:
        data = self.tensors.get(id(args[0])) if len(args) == 3 else None
        if data is None or id(args[2]) not in self.ordered:
            return False
        self.tensors[id(call)] = _PARAMETER([data, args[1], _HOOKS])
        return True

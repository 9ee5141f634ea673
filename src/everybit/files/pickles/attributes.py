"""Names of the attributes that BUILD and keyword arguments give to objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.files.pickles.constants import UNKNOWN, as_string
from everybit.files.pickles.nested import as_bytes
from everybit.files.pickles.nodes import Call, DictNode, Global, ListNode, TupleNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.files.pickles.nodes import Node, Pickle

#: Attributes of an instance that say where in memory its elements lie; NumPy and torch believe it.
MEMORY: Final = frozenset({"__array_interface__", "__array_struct__", "__cuda_array_interface__"})
#: Functions of whose last arguments one is a state that they set as BUILD does.
SETTERS: Final = (
    "_rebuild_from_type", "_rebuild_from_type_v2", "_rebuild_parameter_with_state",
    "_create_array",
)  # fmt: skip
#: Calls that can give text.
_TEXTS: Final = frozenset({
    "builtins.str", "__builtin__.str", "__builtin__.unicode", "_codecs.encode", "codecs.encode",
    "numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar", "numpy.str_",
})  # fmt: skip


def find_memory(pickle: Pickle) -> list[tuple[str, int]]:
    """Return each attribute that describes memory, or whose name is computed, and an offset.

    A computed name is given as "?". Picklers write all names of attributes as constants.
    """
    found: list[tuple[str, int]] = []
    for target, state in pickle.builds:
        position = target.position if isinstance(target, Call) else pickle.start
        found += [(name, position) for name in _names(state)]
    for call in pickle.calls:
        if call.kwargs is not None:
            found += [(name, call.position) for name in _names(call.kwargs)]
        function = call.function
        if type(function) is Global and function.name.rpartition(".")[2] in SETTERS:
            for part in call.arguments[-2:]:
                found += [(name, call.position) for name in _names(part)]
    return found


def _names(state: Node, depth: int = 0) -> Iterator[str]:
    """Yield the telling names of attributes in a state: of a dictionary, or of a pair of those."""
    if isinstance(state, TupleNode) and depth == 0:
        # `(attributes, slots)`, and `(function, arguments, keywords, attributes)` of a `partial`.
        for part in state.items[:4]:
            yield from _names(part, 1)
        return
    for key in _keys(state):
        text = as_string(key)
        if text in MEMORY:
            yield text
        elif _makes_text(key):
            yield UNKNOWN


def _makes_text(key: Node) -> bool:
    """Return whether a key is text that a call makes: classes as keys are no attributes."""
    if not isinstance(key, Call) or as_bytes(key) is not None:
        return False
    return key.name in _TEXTS or not isinstance(key.function, Global)


def _keys(state: Node) -> Iterator[Node]:
    if isinstance(state, (DictNode, Call)):
        for key, _ in state.pairs:
            yield key
    if isinstance(state, Call) and state.name.endswith(("dict", "Dict")):
        # `OrderedDict([(key, value), ...])`
        for pairs in state.arguments[:1]:
            for pair in pairs.items if isinstance(pairs, (ListNode, TupleNode)) else ():
                if isinstance(pair, (ListNode, TupleNode)) and pair.items:
                    yield pair.items[0]

"""Bytes inside a pickle that something may load in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from everybit.files.pickles.handed import find_handed
from everybit.files.pickles.nodes import Blob, Call, ListNode, Text, TupleNode

if TYPE_CHECKING:
    from collections.abc import Container

    from everybit.files.pickles.nodes import Node, Pickle

_SHORTEST: Final = 2
_MOST: Final = 10_000

#: Calls that load the bytes they are given and do nothing else: judged by these bytes.
BY_CONTENT: Final = frozenset({"torch.storage._load_from_bytes"})
#: Calls whose bytes are values and nothing that is loaded.
_VALUES: Final = frozenset({
    "builtins.bytearray", "builtins.bytes", "__builtin__.bytearray", "numpy.core.multiarray.scalar",
    "numpy._core.multiarray.scalar", "numpy.core.numeric._frombuffer", "_codecs.encode",
    "numpy._core.numeric._frombuffer", "numpy.core.multiarray._reconstruct", "numpy.dtype",
    "numpy._core.multiarray._reconstruct", "datetime.datetime", "datetime.date", "datetime.time",
    "array._array_reconstructor", "types.CodeType", "collections.OrderedDict",
})  # fmt: skip


#: What constant bytes can stand in.
_HOLDERS: Final = frozenset({Blob, Text, Call})


class Nested(NamedTuple):
    """Bytes that a pickle gives to a call.

    Attributes:
        position: Their offset in the pickle; -1 where they do not stand in it as they are.
        data: The bytes; empty where the reader left a large string out.
        loaded: The call loads them, so that they are no mere value whatever they begin with.
    """

    position: int
    data: bytes
    loaded: bool


def find_nested(pickle: Pickle, left_out: Container[int] = ()) -> list[Nested]:
    """Return the byte strings that a pickle gives to calls, each content once.

    Those that only become a value (an array's elements, a date) are left out.

    Args:
        pickle: The pickle.
        left_out: Offsets of strings that are empty only because the reader left them out.
    """
    found: dict[tuple[int, bytes], Nested] = {}
    harmless: dict[int, bool] = {}
    for call in pickle.calls:
        args = call.args
        if type(args) is not TupleNode and type(args) is not ListNode:
            continue
        if _HOLDERS.isdisjoint(map(type, args.items)):
            continue
        holders = [node for node in args.items if type(node) in _HOLDERS]
        key = id(call.function)
        if key not in harmless:
            harmless[key] = _is_harmless(call)
        if harmless[key]:
            continue
        loaded = call.name in BY_CONTENT
        if not loaded and len(found) >= _MOST:
            continue
        for node in holders:
            held = as_bytes(node)
            if held is None:
                continue
            at, data = held
            if loaded or len(data) >= _SHORTEST or at in left_out:
                found.setdefault((0 if data else at, data), Nested(at, data, loaded))
    return list(found.values())


def is_given_whole(pickle: Pickle, name: str, num_calls: int) -> bool:
    """Return whether a name is one that is judged by its bytes, and every call has them.

    Args:
        pickle: The pickle that reaches the name.
        name: The qualified name.
        num_calls: How often it is called, also by other ways than its name.
    """
    if name not in BY_CONTENT:
        return False
    calls = [call for call in pickle.calls if call.name == name]
    handed = find_handed(pickle)
    return len(calls) == num_calls and not (
        any(len(call.arguments) != 1 or as_bytes(call.arguments[0]) is None for call in calls)
        or any(id(node) in handed for node in pickle.globals if node.qualified == name)
    )


def as_bytes(node: Node) -> tuple[int, bytes] | None:
    """Return the constant bytes that a node stands for and their offset, or None."""
    if isinstance(node, Blob):
        return node.start, node.data
    if isinstance(node, Text):
        return -1, node.data
    # Protocol 2 writes bytes as text, to be encoded.
    if isinstance(node, Call) and node.name in ("_codecs.encode", "codecs.encode"):
        args = node.arguments
        if len(args) == 2 and isinstance(args[0], str) and args[1] in ("latin1", "latin-1"):
            try:
                return -1, args[0].encode("latin-1")
            except UnicodeEncodeError:
                return None
    return None


def _is_harmless(call: Call) -> bool:
    """Return whether a call makes values, or a code object as cloudpickle and dill do."""
    if call.name in _VALUES or call.name.startswith("torch._utils."):
        return True
    made_by = call.function
    return isinstance(made_by, Call) and made_by.name.endswith(("._builtin_type", "._load_type"))

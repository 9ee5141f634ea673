"""Under which keys of the loaded object the names and calls of a pickle hang."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from everybit.files.pickles.nodes import (
    Call,
    DictNode,
    Global,
    ListNode,
    Persistent,
    SetNode,
    Text,
    TupleNode,
)
from everybit.files.weights_only.names import renamed

if TYPE_CHECKING:
    from everybit.files.pickles.nodes import Node, Pickle

_MAX_VISITS: Final = 500_000
_MAX_DEPTH: Final = 200
_MAX_KEY: Final = 200
#: Keys kept of a name.
MAX_KEYS: Final = 5


@dataclass(frozen=True, slots=True)
class Hung:
    """The keys for calls and names.

    Attributes:
        by_position: For a call, by the offset of its opcode.
        by_name: For a qualified name, as torch calls it; the first few.
    """

    by_position: dict[int, str] = field(default_factory=dict)
    by_name: dict[str, list[str]] = field(default_factory=dict)

    def name(self, name: str, key: str) -> None:
        """Note a key of a name; the first few are kept."""
        keys = self.by_name.setdefault(name, [])
        if key not in keys and len(keys) < MAX_KEYS:
            keys.append(key)


_Path = tuple["_Path | None", str] | None


def find_hung(pickle: Pickle) -> Hung:
    """Walk the object of a pickle once; each container is visited once, in bounded time."""
    hung = Hung()
    seen: set[int] = set()
    todo: list[tuple[Node, _Path, int]] = [(pickle.result, None, 0)]
    visits = 0
    while todo and visits < _MAX_VISITS:
        node, path, depth = todo.pop()
        visits += 1
        if isinstance(node, Global):
            hung.name(_name(node), _joined(path))
            continue
        if id(node) in seen or depth > _MAX_DEPTH:
            continue
        seen.add(id(node))
        children = _children(node, path, hung)
        todo.extend((child, place, depth + 1) for child, place in reversed(children))
    return hung


def _name(node: Global) -> str:
    return ".".join(renamed(node.module, node.name))


def _joined(path: _Path) -> str:
    parts: list[str] = []
    while path is not None:
        path, key = path
        parts.append(key)
    joined = ".".join(reversed(parts))
    return joined if len(joined) <= _MAX_KEY else f"{joined[:_MAX_KEY]}..."


def _children(node: Node, path: _Path, hung: Hung) -> list[tuple[Node, _Path]]:
    if isinstance(node, DictNode):
        return _keyed(node.pairs, path)
    if isinstance(node, (ListNode, TupleNode, SetNode)):
        return [(item, (path, str(index))) for index, item in enumerate(node.items)]
    if isinstance(node, Persistent):
        return _flat(node.id, path)
    if not isinstance(node, Call):
        return []
    hung.by_position.setdefault(node.position, _joined(path))
    children: list[tuple[Node, _Path]] = [(node.function, path), *_flat(node.args, path)]
    children += [(node.kwargs, path), *((item, path) for item in node.items)]
    children += _keyed(node.pairs, path)
    children += _flat(node.state, path)
    return children


def _flat(node: Node, path: _Path) -> list[tuple[Node, _Path]]:
    """Return the parts of a tuple that is no tuple of the object itself."""
    if isinstance(node, TupleNode):
        return [(item, path) for item in node.items]
    return [(node, path)]


def _keyed(pairs: list[tuple[Node, Node]], path: _Path) -> list[tuple[Node, _Path]]:
    children: list[tuple[Node, _Path]] = []
    for index, (key, value) in enumerate(pairs):
        children.append((key, path))
        children.append((value, (path, _shown(key, index))))
    return children


def _shown(key: Node, index: int) -> str:
    if isinstance(key, Text):
        key = key.data.decode("utf-8", "replace")
    if isinstance(key, str):
        return key[:_MAX_KEY]
    if key is None or isinstance(key, (bool, float)):
        return str(key)
    if isinstance(key, int) and key.bit_length() <= 64:
        return str(key)
    return f"({index})"

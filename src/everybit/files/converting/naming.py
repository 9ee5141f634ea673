"""What a tensor is called in the new file: the dotted path of keys that leads to it."""

from __future__ import annotations

from typing import Final

import xxhash

from everybit.files.pickles.nodes import Blob, Node, Text, TupleNode

_MAX_NAME: Final = 1024
_MAX_PARTS: Final = 8
#: Keys of a safetensors header that are no tensors.
_RESERVED: Final = frozenset({"__metadata__"})
#: What a tensor is called that is the whole of a file.
ROOT: Final = "tensor"


class Names:
    """The names given so far; each is given once.

    >>> names = Names()
    >>> names.unique("w"), names.unique("w"), names.unique("")
    ('w', 'w#1', 'tensor')
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def unique(self, path: str) -> str:
        """Return a name for the object at a path that nothing else has."""
        wanted = printable(shorten(path)) or ROOT
        name = wanted
        while name in self._counts or name in _RESERVED:
            number = self._counts.setdefault(wanted, 0) + 1
            self._counts[wanted] = number
            name = f"{wanted}#{number}"
        self._counts[name] = 0
        return name


def printable(name: str) -> str:
    """Return a name that UTF-8 can hold: half of a surrogate pair becomes its escape."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def shorten(name: str) -> str:
    """Return a name of bounded length: beyond it a digest stands for the rest."""
    if len(name) <= _MAX_NAME:
        return name
    tail = xxhash.xxh3_64_hexdigest(name.encode("utf-8", "surrogatepass"))
    return f"{name[: _MAX_NAME // 2]}~{tail}"


def below(path: str, key: str) -> str:
    """Return the path of a key under another path."""
    return shorten(f"{path}.{key}") if path else shorten(key)


def key_text(key: Node, index: int) -> str:
    """Return a dictionary's key as a part of a path; its place where it is no plain value."""
    if isinstance(key, str):
        return key
    if isinstance(key, Text):
        return key.data.decode("utf-8", "replace")
    if isinstance(key, int) and key.bit_length() > 64:
        return f"({index})"
    if key is None or isinstance(key, bool | int | float):
        return str(key)
    if isinstance(key, TupleNode) and all(
        isinstance(item, str | int) for item in key.items[:_MAX_PARTS]
    ):
        return "(" + ",".join(key_text(item, index) for item in key.items[:_MAX_PARTS]) + ")"
    return f"({index})"


def same_key(key: Node, depth: int = 0) -> object:
    """Return a hashable value that is equal for keys that a dictionary takes for the same."""
    if isinstance(key, Text):
        return key.data.decode("utf-8", "replace")
    if isinstance(key, Blob):
        return key.data
    if key is None or isinstance(key, bool | int | float | str):
        return key
    if isinstance(key, TupleNode) and depth < _MAX_PARTS and len(key.items) <= 64:
        return tuple(same_key(item, depth + 1) for item in key.items)
    return _Itself(id(key))


class _Itself:
    """An object that is equal to itself alone."""

    __slots__ = ("address",)

    def __init__(self, address: int) -> None:
        self.address = address

    def __hash__(self) -> int:
        return hash(self.address)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.address == self.address

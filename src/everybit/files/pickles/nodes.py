"""What a pickle describes, as inert values: nothing here is ever called or imported."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

#: A plain value (None, bool, int, float, str) or one of the nodes below.
Node = Any


@dataclass(slots=True, eq=False)
class Global:
    """A name that the pickle asks to import.

    Attributes:
        module: Dotted module name, as written.
        name: Qualified name in it.
        position: Offset of the opcode in the pickle.
    """

    module: str
    name: str
    position: int

    @property
    def qualified(self) -> str:
        """`module.name`."""
        return f"{self.module}.{self.name}"


class CallKind(StrEnum):
    """Which opcode makes the call."""

    REDUCE = "reduce"
    NEWOBJ = "newobj"
    NEWOBJ_EX = "newobj_ex"
    INST = "inst"
    OBJ = "obj"


@dataclass(slots=True, eq=False)
class Call:
    """A call that unpickling would make, recorded and not made.

    Attributes:
        kind: The opcode's kind.
        function: What would be called: a `Global`, or any other node.
        args: Positional arguments: a `TupleNode`, or whatever stood in its place.
        kwargs: Keyword arguments (NEWOBJ_EX), else None.
        position: Offset of the opcode in the pickle.
        state: What BUILD gave to the result, the last one.
        items: What APPEND gave to it.
        pairs: What SETITEM gave to it.
    """

    kind: CallKind
    function: Node
    args: Node
    kwargs: Node
    position: int
    state: Node = None
    items: list[Node] = field(default_factory=list)
    pairs: list[tuple[Node, Node]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The function's qualified name, "" where it is no global."""
        return self.function.qualified if isinstance(self.function, Global) else ""

    @property
    def arguments(self) -> list[Node]:
        """The positional arguments; empty where they are no tuple."""
        return self.args.items if isinstance(self.args, TupleNode) else []


@dataclass(slots=True, eq=False)
class TupleNode:
    """A tuple."""

    items: list[Node]


@dataclass(slots=True, eq=False)
class ListNode:
    """A list."""

    items: list[Node]


@dataclass(slots=True, eq=False)
class SetNode:
    """A set or frozenset."""

    items: list[Node]


@dataclass(slots=True, eq=False)
class DictNode:
    """A dictionary; a later pair of an equal key wins."""

    pairs: list[tuple[Node, Node]]


@dataclass(slots=True, eq=False)
class Blob:
    """A bytes or bytearray object, and where it stands in the pickle."""

    data: bytes
    start: int


@dataclass(slots=True, eq=False)
class Text:
    """A string that was written as 8-bit text (protocol 0 and 1), kept undecoded."""

    data: bytes


@dataclass(slots=True, eq=False)
class Persistent:
    """An object that lives outside the pickle; in a torch archive a storage."""

    id: Node


@dataclass(slots=True, eq=False)
class Extension:
    """A code of the copyreg extension registry."""

    code: int


@dataclass(slots=True, kw_only=True)
class Pickle:
    """What one pickle says.

    Attributes:
        result: The node that unpickling would return.
        globals: Every name that it would import, in order, each once.
        calls: Every call that it would make, in order.
        builds: Every `(node, state)` of a BUILD, in order.
        persistents: Every object that lives outside the pickle, in order.
        num_nodes: How many containers and calls were made.
        end: Offset after STOP.
        protocol: The highest PROTO seen; 0 with none.
    """

    result: Node
    globals: list[Global]
    calls: list[Call]
    builds: list[tuple[Node, Node]]
    persistents: list[Persistent]
    num_nodes: int
    end: int
    protocol: int

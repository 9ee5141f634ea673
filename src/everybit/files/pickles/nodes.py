"""What a pickle describes, as inert values: nothing here is ever called or imported."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everybit.files.damage import MalformedError

#: A plain value (None, bool, int, float, str) or one of the nodes below.
Node = Any


@dataclass(slots=True, eq=False)
class Global:
    """A name that the pickle asks to import.

    Attributes:
        module: Dotted module name, as written; "?" where it is computed while loading.
        name: Qualified name in it; "?" where it is computed.
        position: Offset of the opcode in the pickle.
        legacy: A protocol below 3 is in force, so that Python 3 maps names of Python 2.
    """

    module: str
    name: str
    position: int
    legacy: bool = False

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
    """A set, or a frozenset (`frozen`)."""

    items: list[Node]
    frozen: bool = False


@dataclass(slots=True, eq=False)
class DictNode:
    """A dictionary; a later pair of an equal key wins."""

    pairs: list[tuple[Node, Node]]


@dataclass(slots=True, eq=False)
class Blob:
    """A bytes object, or a bytearray (`mutable`), and where it stands in the pickle."""

    data: bytes
    start: int
    mutable: bool = False


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
    """A code of the copyreg extension registry, and the offset of its opcode."""

    code: int
    position: int = -1


class Change(StrEnum):
    """Which opcode changes an object that the pickle did not make."""

    BUILD = "build"
    APPEND = "append"
    ADD = "add"
    SET_ITEM = "set_item"


@dataclass(slots=True, eq=False)
class Touch:
    """A change of an object that is neither a plain container nor the result of a call.

    Attributes:
        kind: The opcode's kind.
        target: What would be changed.
        items: What it would be given: the state, the items, or keys and values in turn.
        position: Offset of the opcode in the pickle.
    """

    kind: Change
    target: Node
    items: list[Node]
    position: int


@dataclass(frozen=True, slots=True)
class Oddity:
    """Something that an unpickler reads and no pickler writes.

    Attributes:
        what: A clause about the pickle ("writes an integer with a NUL byte in it").
        position: Offset of the opcode in the pickle.
        trick: It can only be meant to mislead; a sloppy tool would not do it.
    """

    what: str
    position: int
    trick: bool


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
        touches: Every change of an object that it would import or take from outside, in order.
        extensions: Every code of the extension registry that it asks for, in order.
        oddities: What no pickler writes, each kind once.
        start: Offset of the first opcode.
        crosses: Something reaches across the end of a frame, where loaders differ.
        error: Why it cannot be followed to STOP; the rest is what an unpickler does before that.
    """

    result: Node
    globals: list[Global]
    calls: list[Call]
    builds: list[tuple[Node, Node]]
    persistents: list[Persistent]
    num_nodes: int
    end: int
    protocol: int
    touches: list[Touch] = field(default_factory=list)
    extensions: list[Extension] = field(default_factory=list)
    oddities: list[Oddity] = field(default_factory=list)
    start: int = 0
    crosses: bool = False
    error: MalformedError | None = None

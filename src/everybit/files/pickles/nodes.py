"""What a pickle describes, as inert values: nothing here is ever called or imported.

Plain classes with slots: they are made by the million, and a dataclass takes half a millisecond to
define, which every start of the command would pay for each of them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everybit.files.damage import MalformedError

#: A plain value (None, bool, int, float, str) or one of the nodes below.
Node = Any


class Global:
    """A name that the pickle asks to import.

    Attributes:
        module: Dotted module name, as written; "?" where it is computed while loading.
        name: Qualified name in it; "?" where it is computed.
        position: Offset of the opcode in the pickle.
        legacy: A protocol below 3 is in force, so that Python 3 maps names of Python 2.
    """

    __slots__ = ("legacy", "module", "name", "position")

    def __init__(self, module: str, name: str, position: int, legacy: bool = False) -> None:
        self.module = module
        self.name = name
        self.position = position
        self.legacy = legacy

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

    __slots__ = ("args", "function", "items", "kind", "kwargs", "pairs", "position", "state")

    def __init__(
        self, kind: CallKind, function: Node, args: Node, kwargs: Node, position: int
    ) -> None:
        self.kind = kind
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.position = position
        self.state: Node = None
        self.items: list[Node] = []
        self.pairs: list[tuple[Node, Node]] = []

    @property
    def name(self) -> str:
        """The function's qualified name, "" where it is no global."""
        return self.function.qualified if isinstance(self.function, Global) else ""

    @property
    def arguments(self) -> list[Node]:
        """The positional arguments; empty where they are no tuple."""
        return self.args.items if isinstance(self.args, TupleNode) else []


class TupleNode:
    """A tuple of `items`."""

    __slots__ = ("items",)

    def __init__(self, items: list[Node]) -> None:
        self.items = items


class ListNode:
    """A list of `items`."""

    __slots__ = ("items",)

    def __init__(self, items: list[Node]) -> None:
        self.items = items


class SetNode:
    """A set of `items`, or a frozenset (`frozen`)."""

    __slots__ = ("frozen", "items")

    def __init__(self, items: list[Node], frozen: bool = False) -> None:
        self.items = items
        self.frozen = frozen


class DictNode:
    """A dictionary of `pairs`; a later pair of an equal key wins."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[Node, Node]]) -> None:
        self.pairs = pairs


class Blob:
    """A bytes object, or a bytearray (`mutable`), and where it stands in the pickle."""

    __slots__ = ("data", "mutable", "start")

    def __init__(self, data: bytes, start: int, mutable: bool = False) -> None:
        self.data = data
        self.start = start
        self.mutable = mutable


class Text:
    """A string that was written as 8-bit text (protocol 0 and 1), kept undecoded in `data`."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class Persistent:
    """An object that lives outside the pickle, by its `id`; in a torch archive a storage."""

    __slots__ = ("id",)

    def __init__(self, id: Node) -> None:  # noqa: A002 - what pickle itself calls it
        self.id = id


class Extension:
    """A code of the copyreg extension registry, and the offset of its opcode."""

    __slots__ = ("code", "position")

    def __init__(self, code: int, position: int = -1) -> None:
        self.code = code
        self.position = position


class Change(StrEnum):
    """Which opcode changes an object that the pickle did not make."""

    BUILD = "build"
    APPEND = "append"
    ADD = "add"
    SET_ITEM = "set_item"


class Touch:
    """A change of an object that is neither a plain container nor the result of a call.

    Attributes:
        kind: The opcode's kind.
        target: What would be changed.
        items: What it would be given: the state, the items, or keys and values in turn.
        position: Offset of the opcode in the pickle.
    """

    __slots__ = ("items", "kind", "position", "target")

    def __init__(self, kind: Change, target: Node, items: list[Node], position: int) -> None:
        self.kind = kind
        self.target = target
        self.items = items
        self.position = position


class Oddity:
    """Something that an unpickler reads and no pickler writes.

    Attributes:
        what: A clause about the pickle ("writes an integer with a NUL byte in it").
        position: Offset of the opcode in the pickle.
        trick: It can only be meant to mislead; a sloppy tool would not do it.
    """

    __slots__ = ("position", "trick", "what")

    def __init__(self, what: str, position: int, trick: bool) -> None:
        self.what = what
        self.position = position
        self.trick = trick


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
        shared: Every opcode in it means the same to torch's own unpickler, as far as the opcode
            itself goes: which names may be imported, called and built is another question.
    """

    __slots__ = (
        "builds", "calls", "crosses", "end", "error", "extensions", "globals", "num_nodes",
        "oddities", "persistents", "protocol", "result", "shared", "start", "touches",
    )  # fmt: skip

    # What the machine knows when it has come to the end:
    result: Node
    globals: list[Global]
    oddities: list[Oddity]
    num_nodes: int
    end: int
    protocol: int
    crosses: bool
    error: MalformedError | None
    shared: bool

    def __init__(self, start: int) -> None:
        self.start = start
        self.calls: list[Call] = []
        self.builds: list[tuple[Node, Node]] = []
        self.persistents: list[Persistent] = []
        self.touches: list[Touch] = []
        self.extensions: list[Extension] = []

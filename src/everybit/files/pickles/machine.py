"""The one pickle interpreter: an abstract machine that executes nothing.

It follows the opcodes of protocols 0 to 5 as CPython's C unpickler does, but names stay names,
calls become records, and persistent ids stay ids. `verify` reads tensors out of the result; the
globals and calls that unpickling would reach are all recorded.

Bounds: time and memory grow linearly with the pickle, nothing recurses, no decimal number of more
than `MAX_DIGITS` digits is converted, and the number of opcodes is limited.
"""

from __future__ import annotations

import codecs
import struct
from typing import Any, Final

from everybit.files.damage import MalformedError, malformed
from everybit.files.pickles.nodes import (
    Blob,
    Call,
    CallKind,
    DictNode,
    Global,
    ListNode,
    Node,
    Persistent,
    Pickle,
    SetNode,
    Text,
    TupleNode,
)

#: CPython refuses longer decimal integers too, since converting them takes quadratic time.
MAX_DIGITS: Final = 4300
_HIGHEST_PROTOCOL: Final = 5
_FRAME_LENGTH: Final = struct.Struct("<Q")


class PickleEndsError(MalformedError):
    """The bytes end before the pickle does; with more of them it may be whole."""


class Machine:
    """The state of one interpretation: what is read, the stack, the memo, and the record.

    Methods named after an opcode do what it does.

    Args:
        data: The pickle.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.stack: list[Node] = []
        self.marks: list[int] = []
        self.memo: dict[int, Node] = {}
        self.globals: dict[tuple[str, str], Global] = {}
        self.calls: list[Call] = []
        self.builds: list[tuple[Node, Node]] = []
        self.persistents: list[Persistent] = []
        self.num_nodes = 0
        self.protocol = 0

    def result(self) -> Pickle:
        """Return the record, at STOP."""
        return Pickle(
            result=self.pop(),
            globals=list(self.globals.values()),
            calls=self.calls,
            builds=self.builds,
            persistents=self.persistents,
            num_nodes=self.num_nodes,
            end=self.at,
            protocol=self.protocol,
        )

    # -- reading ---------------------------------------------------------------------------------

    def error(self, what: str, position: int) -> MalformedError:
        """Return the error for something wrong at an offset of the pickle."""
        return malformed(f"the pickle {what}", evidence={"position": position})

    def ended(self, what: str, position: int) -> PickleEndsError:
        """Return the error for bytes that end too early."""
        return PickleEndsError(self.error(what, position).damage)

    def take(self, length: int) -> bytes:
        """Return the next bytes, all of them or an error."""
        end = self.at + length
        if end > len(self.data):
            left = len(self.data) - self.at
            raise self.ended(f"wants {length} bytes where {left} are left", self.at)
        piece = self.data[self.at : end]
        self.at = end
        return piece

    def number(self, layout: struct.Struct) -> Any:
        """Return the next number of a fixed layout."""
        return layout.unpack(self.take(layout.size))[0]

    def line(self) -> bytes:
        """Return the next line, without its newline."""
        end = self.data.find(b"\n", self.at)
        if end < 0:
            raise self.ended("ends within a line", self.at)
        piece = self.data[self.at : end]
        self.at = end + 1
        return piece

    # -- the stack -------------------------------------------------------------------------------

    def push(self, node: Node) -> None:
        """Put a node on the stack."""
        self.stack.append(node)

    def pop(self) -> Node:
        """Take the top node; never past a mark."""
        if self.marks and self.marks[-1] == len(self.stack):
            raise IndexError
        return self.stack.pop()

    def top(self) -> Node:
        """Return the top node; never past a mark."""
        if self.marks and self.marks[-1] == len(self.stack):
            raise IndexError
        return self.stack[-1]

    def pop_mark(self) -> list[Node]:
        """Take all nodes above the last mark, and the mark."""
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def pop_to_mark(self) -> None:
        """POP_MARK."""
        self.pop_mark()

    def new(self, node: Node) -> None:
        """Put a new container or call on the stack, and count it."""
        self.num_nodes += 1
        self.stack.append(node)

    # -- what opcodes do -------------------------------------------------------------------------

    def reference(self, module: str, name: str, position: int) -> Global:
        """Record a name that would be imported; equal names are one node."""
        return self.globals.setdefault((module, name), Global(module, name, position))

    def call(self, kind: CallKind, function: Node, args: Node, kwargs: Node = None) -> None:
        """Record a call, and put its result on the stack."""
        made = Call(kind, function, args, kwargs, self.at - 1)
        self.calls.append(made)
        self.new(made)

    def outside(self, key: Node) -> None:
        """PERSID, BINPERSID: put an object from outside on the stack."""
        made = Persistent(key)
        self.persistents.append(made)
        self.new(made)

    def extend(self, items: list[Node]) -> None:
        """APPEND, APPENDS, ADDITEMS: add to the list, set or call on top."""
        target = self.top()
        if not isinstance(target, (ListNode, SetNode, Call)):
            raise self.error("appends to what is no list", self.at - 1)
        target.items.extend(items)

    def set_items(self, items: list[Node]) -> None:
        """SETITEM, SETITEMS: add pairs to the dictionary or call on top."""
        target = self.top()
        if not isinstance(target, (DictNode, Call)) or len(items) % 2:
            raise self.error("sets items of what is no dictionary", self.at - 1)
        target.pairs.extend(zip(items[::2], items[1::2], strict=True))

    def build(self) -> None:
        """BUILD: record the state given to the node below it."""
        state = self.pop()
        target = self.top()
        if isinstance(target, Call):
            target.state = state
        self.builds.append((target, state))

    def memoize(self, key: int) -> None:
        """PUT and its kin."""
        if key < 0:
            raise ValueError("negative memo key")
        self.memo[key] = self.top()

    def recall(self, key: int) -> None:
        """GET and its kin."""
        if key not in self.memo:
            raise self.error(f"recalls memo {key}, which was never stored", self.at - 1)
        self.stack.append(self.memo[key])

    def pop_one(self) -> None:
        """POP, which takes a mark where one is on top."""
        if self.marks and self.marks[-1] == len(self.stack):
            self.marks.pop()
        else:
            self.stack.pop()

    def proto(self) -> None:
        """PROTO."""
        protocol = self.take(1)[0]
        if protocol > _HIGHEST_PROTOCOL:
            raise self.error(f"is of protocol {protocol}, which is not known", self.at - 2)
        self.protocol = max(self.protocol, protocol)

    def frame(self) -> None:
        """FRAME; its length only has to fit."""
        length = self.number(_FRAME_LENGTH)
        if length > len(self.data) - self.at:
            raise self.ended("has a frame longer than itself", self.at - 9)

    def stack_global(self) -> None:
        """STACK_GLOBAL."""
        name, module = self.pop(), self.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise self.error("imports a name that is no text", self.at - 1)
        self.push(self.reference(module, name, self.at - 1))

    def line_global(self) -> Global:
        """GLOBAL: read two lines and return the name."""
        position = self.at - 1
        module = self.line().decode("utf-8", "surrogateescape")
        name = self.line().decode("utf-8", "surrogateescape")
        return self.reference(module, name, position)

    def inst(self) -> None:
        """INST."""
        function = self.line_global()
        self.call(CallKind.INST, function, TupleNode(self.pop_mark()))

    def obj(self) -> None:
        """OBJ."""
        function, *args = self.pop_mark()
        self.call(CallKind.OBJ, function, TupleNode(args))

    def reduce(self) -> None:
        """REDUCE."""
        args = self.pop()
        self.call(CallKind.REDUCE, self.pop(), args)

    def newobj(self) -> None:
        """NEWOBJ."""
        args = self.pop()
        self.call(CallKind.NEWOBJ, self.pop(), args)

    def newobj_ex(self) -> None:
        """NEWOBJ_EX."""
        kwargs, args = self.pop(), self.pop()
        self.call(CallKind.NEWOBJ_EX, self.pop(), args, kwargs)

    def frozenset(self) -> None:
        """FROZENSET."""
        self.new(SetNode(self.pop_mark()))

    def dict(self) -> None:
        """DICT."""
        items = self.pop_mark()
        if len(items) % 2:
            raise self.error("makes a dictionary of an odd number of items", self.at - 1)
        self.new(DictNode(list(zip(items[::2], items[1::2], strict=True))))

    def tuple_of(self, count: int) -> None:
        """TUPLE1 to TUPLE3."""
        if len(self.stack) - (self.marks[-1] if self.marks else 0) < count:
            raise IndexError
        items = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        self.new(TupleNode(items))

    def set_item(self) -> None:
        """SETITEM."""
        value, key = self.pop(), self.pop()
        self.set_items([key, value])

    def integer_line(self) -> None:
        """INT, which also writes booleans."""
        text = self.line()
        if text in (b"00", b"01"):
            self.push(text == b"01")
        else:
            self.push(parse_integer(text, 0))

    def string_line(self) -> None:
        """STRING."""
        text = self.line().strip()
        if len(text) < 2 or text[0] != text[-1] or text[:1] not in (b"'", b'"'):
            raise self.error("holds a string without quotes", self.at)
        self.push(Text(codecs.escape_decode(text[1:-1])[0]))

    def blob(self, length: int) -> None:
        """BINBYTES and its kin."""
        start = self.at
        self.push(Blob(self.take(length), start))

    def text(self, length: int) -> None:
        """BINUNICODE and its kin."""
        # "surrogatepass", as every unpickler does; the rest cannot be decoded by them either.
        self.push(self.take(length).decode("utf-8", "surrogatepass"))

    def out_of_band(self) -> None:
        """NEXT_BUFFER, READONLY_BUFFER."""
        raise self.error("wants a buffer from outside, which a file does not have", self.at - 1)


def parse_integer(text: bytes, base: int) -> int:
    """Return a written integer; raises `ValueError` where it is none or absurdly long."""
    if len(text) > MAX_DIGITS:
        raise ValueError("an integer of too many digits")
    return int(text.decode("ascii").strip().rstrip("\0"), base)

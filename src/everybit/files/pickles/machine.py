"""The one pickle interpreter: an abstract machine that executes nothing.

It follows the opcodes of protocols 0 to 5 as CPython's C unpickler does, but names stay names,
calls become records, and persistent ids stay ids. `verify` reads tensors out of the result; the
globals and calls that unpickling would reach are all recorded.

Where the C and the Python unpickler differ it takes what either of them takes, since loaders use
both. What it reads must never be less than what a loader reads, and every name and call must be
recorded before a fault ends the reading.

Bounds: time and memory grow linearly with the pickle, nothing recurses, no decimal number of more
than `MAX_DIGITS` digits is converted, and the number of opcodes is limited.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from everybit.files.pickles.nodes import (
    Blob,
    Call,
    CallKind,
    Change,
    DictNode,
    Extension,
    Global,
    ListNode,
    Node,
    Oddity,
    Persistent,
    Pickle,
    SetNode,
    Text,
    Touch,
    TupleNode,
)
from everybit.files.pickles.reader import Reader
from everybit.files.pickles.texts import can_be_text

if TYPE_CHECKING:
    from everybit.files.damage import MalformedError

_MAX_ODDITIES: Final = 20
#: Protocols below this one write names of Python 2, which Python 3 maps to its own.
_OWN_NAMES: Final = 3
_HIGHEST_PROTOCOL: Final = 5
_FRAME_LENGTH: Final = struct.Struct("<Q")


class Machine(Reader):
    """The state of one interpretation: what is read, the stack, the memo, and the record.

    Methods named after an opcode do what it does. `shared` stays True while all of them are those
    that torch's own unpickler has as well, used as it allows.

    Args:
        data: The pickle.
        start: Offset of its first opcode.
        forgiving: Go on where only some loaders would: past a frame that is longer than what is
            left, and with buffers from outside.
        memo: What is in the memo already.
        piecewise: Read as the C unpickler reads a file.
    """

    # What few pickles change stands with the class, since most machines read a dozen opcodes.
    lacks_memo = False
    num_nodes = 0
    steps = 0
    protocol = 0
    protocol_in_force = 0

    def __init__(
        self,
        data: bytes,
        start: int = 0,
        *,
        forgiving: bool = False,
        memo: dict[int, Node] | None = None,
        piecewise: bool = False,
    ) -> None:
        super().__init__(data, start, piecewise=piecewise)
        self.start = start
        self.forgiving = forgiving
        self.stack: list[Node] = []
        self.marks: list[int] = []
        self.memo: dict[int, Node] = {} if memo is None else memo
        self.globals: dict[tuple[str, str, bool], Global] = {}
        self.made = Pickle(start)
        self.oddities: dict[str, Oddity] = {}
        self.begun = start
        self.shared = memo is None

    def result(self) -> Pickle:
        """Return the record, at STOP."""
        if self.at < self.frame_end and self.crossed_at < 0:
            self.crossed_at = self.at
        return self.record(self.stack.pop() if not self.marks else self.pop())

    def record(self, result: Node, error: MalformedError | None = None) -> Pickle:
        """Return what was recorded so far."""
        if self.crossed_at >= 0:
            what = "reaches across the end of a frame, where loaders differ"
            self.odd(what, trick=True, at=self.crossed_at)
        made = self.made
        made.result = result
        made.globals = list(self.globals.values())
        made.oddities = oddities = list(self.oddities.values())
        made.num_nodes = self.num_nodes
        made.end = self.at
        made.protocol = self.protocol
        made.crosses = self.crossed_at >= 0
        made.error = error
        made.shared = self.shared and error is None and not oddities
        return made

    def forget(self) -> None:
        """Let go of all but the names, where there is no memory for more."""
        made = self.made
        for held in (self.stack, self.marks, made.calls, made.builds, made.persistents):
            held.clear()
        made.touches.clear()
        self.memo.clear()

    def odd(self, what: str, *, trick: bool, at: int | None = None) -> None:
        """Note what no pickler writes, each kind once."""
        if len(self.oddities) < _MAX_ODDITIES:
            position = self.at - 1 if at is None else at
            self.oddities.setdefault(what, Oddity(what, position, trick))

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
        legacy = self.protocol_in_force < _OWN_NAMES
        key = (module, name, legacy)
        known = self.globals.get(key)
        if known is None:
            known = self.globals[key] = Global(module, name, position, legacy)
        return known

    def call(self, kind: CallKind, function: Node, args: Node, kwargs: Node = None) -> None:
        """Record a call, and put its result on the stack."""
        made = Call(kind, function, args, kwargs, self.at - 1)
        self.made.calls.append(made)
        self.new(made)

    def outside(self, key: Node) -> None:
        """PERSID, BINPERSID: put an object from outside on the stack."""
        made = Persistent(key)
        self.made.persistents.append(made)
        self.new(made)

    def touch(self, kind: Change, target: Node, items: list[Node]) -> None:
        """Record the change of an object that is imported or comes from outside."""
        if not isinstance(target, (Global, Persistent, Extension, Blob)):
            raise self.error(f"changes what has no {kind}", self.at - 1)
        self.made.touches.append(Touch(kind, target, items, self.at - 1))

    def extend(self, items: list[Node], kind: Change = Change.APPEND) -> None:
        """APPEND, APPENDS, ADDITEMS: add to the list, set or call on top."""
        target = self.top()
        if not items:
            self.shared = False
            return
        plain = SetNode if kind is Change.ADD else ListNode
        if isinstance(target, (plain, Call)):
            target.items.extend(items)
        else:
            self.touch(kind, target, items)

    def set_items(self, items: list[Node]) -> None:
        """SETITEM, SETITEMS: add pairs to the dictionary or call on top."""
        target = self.top()
        if len(items) % 2:
            raise self.error("sets an odd number of items", self.at - 1)
        if not items:
            self.shared = False
            return
        for key in items[::2]:
            if type(key) is not str and type(key) is not int:
                self.shared = False
                break
        if isinstance(target, (DictNode, Call)):
            target.pairs.extend(zip(items[::2], items[1::2], strict=True))
        elif isinstance(target, ListNode):
            self.shared = False
            self.replace(target.items, items)
        else:
            self.touch(Change.SET_ITEM, target, items)

    def replace(self, held: list[Node], items: list[Node]) -> None:
        """Set items of a list, which SETITEM does too; an index that is computed adds one."""
        for index, value in zip(items[::2], items[1::2], strict=True):
            if isinstance(index, int):
                held[index] = value
            elif isinstance(index, (Call, Global, Persistent, Extension)):
                held.append(value)
            else:
                raise self.error("sets an item of a list by no number", self.at - 1)

    def build(self) -> None:
        """BUILD: record the state given to the node below it."""
        state = self.pop()
        target = self.top()
        if isinstance(target, Call):
            target.state = state
        elif isinstance(target, (Global, Persistent, Extension)):
            self.made.touches.append(Touch(Change.BUILD, target, [state], self.at - 1))
        self.made.builds.append((target, state))

    def memoize(self, key: int) -> None:
        """PUT and its kin."""
        if key < 0:
            raise ValueError("negative memo key")
        top = self.top()
        if self.memo.setdefault(key, top) is not top:
            self.odd("stores two objects under one memo key", trick=False)
            self.memo[key] = top

    def recall(self, key: int) -> None:
        """GET and its kin."""
        if key not in self.memo:
            self.lacks_memo = True
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
        if self.at - 2 != self.start and protocol != self.protocol_in_force:
            self.odd("changes its protocol on the way", trick=True)
        self.protocol_in_force = protocol
        self.protocol = max(self.protocol, protocol)

    def frame(self) -> None:
        """FRAME; its length only has to fit."""
        length = self.number(_FRAME_LENGTH)
        if length > len(self.data) - self.at:
            if not self.forgiving:
                raise self.ended("has a frame longer than itself", self.at - 9)
            self.odd("has a frame longer than itself", trick=False)
            return
        self.enter_frame(length)

    def stack_global(self) -> None:
        """STACK_GLOBAL; a name that a call makes is not known, and "?" stands for it."""
        name, module = self.pop(), self.pop()
        self.push(self.reference(self.as_name(module), self.as_name(name), self.at - 1))

    def as_name(self, node: Node) -> str:
        """Return a part of a name that STACK_GLOBAL takes from the stack."""
        if isinstance(node, str):
            return node
        if isinstance(node, Text):
            self.odd("gives a name as 8-bit text", trick=True)
            return node.data.decode("utf-8", "surrogateescape")
        if isinstance(node, (Call, Global, Persistent, Extension)) and can_be_text(node):
            self.odd("computes a name that it imports", trick=True)
            return "?"
        raise self.error("imports a name that is no text", self.at - 1)

    def line_global(self) -> Global:
        """GLOBAL: read two lines and return the name."""
        position = self.at - 1
        module = self.name_line()
        name = self.name_line()
        return self.reference(module, name, position)

    def name_line(self) -> str:
        """Return the next line as part of a name."""
        line = self.line()
        if not line:
            raise self.error("imports an empty name", self.at - 1)
        return line.decode("utf-8", "surrogateescape")

    def inst(self) -> None:
        """INST; without a mark nothing is imported."""
        if not self.marks:
            raise IndexError
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
        self.new(SetNode(self.pop_mark(), frozen=True))

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

    def extension(self, code: int) -> None:
        """EXT1 to EXT4."""
        if code <= 0:
            raise self.error("asks for an extension code of 0 or less", self.at - 1)
        made = Extension(code, self.at - 1)
        self.made.extensions.append(made)
        self.push(made)

    def out_of_band(self) -> None:
        """NEXT_BUFFER: a file has none."""
        if not self.forgiving:
            raise self.error("wants a buffer from outside, which a file does not have", self.at - 1)
        self.odd("wants a buffer from outside", trick=False)
        self.outside("buffer")

    def read_only(self) -> None:
        """READONLY_BUFFER: bytes and objects from outside stay what they are."""
        if not isinstance(self.top(), (Blob, Call, Global, Persistent, Extension)):
            raise self.error("makes read-only what is no buffer", self.at - 1)

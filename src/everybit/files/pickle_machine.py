"""The one pickle interpreter: an abstract machine that executes nothing.

It follows the opcodes of protocols 0 to 5 as CPython's C unpickler does, but names stay names, calls
become records, and persistent ids stay ids. `verify` reads tensors out of the result; the globals and
calls that unpickling would reach are all recorded.

Bounds: time and memory grow linearly with the pickle, nothing recurses, no decimal number of more than
`MAX_DIGITS` digits is converted, and `max_steps` opcodes are the limit.
"""

from __future__ import annotations

import codecs
import struct
from typing import TYPE_CHECKING, Any, Final

from everybit.files.damage import MalformedError, malformed
from everybit.files.pickle_nodes import (
    Blob,
    Call,
    CallKind,
    DictNode,
    Extension,
    Global,
    ListNode,
    Node,
    Persistent,
    Pickle,
    SetNode,
    Text,
    TupleNode,
)

if TYPE_CHECKING:
    from collections.abc import Callable

#: Opcodes; a pickle of a hundred thousand tensors has about three million.
MAX_STEPS: Final = 20_000_000
#: CPython refuses longer decimal integers too, since converting them takes quadratic time.
MAX_DIGITS: Final = 4300
_HIGHEST_PROTOCOL: Final = 5


def interpret(data: bytes, *, max_steps: int = MAX_STEPS) -> Pickle:
    """Follow one pickle from its first opcode to STOP.

    Args:
        data: The pickle; what follows STOP is not looked at.
        max_steps: Most opcodes to follow.

    Raises:
        MalformedError: An unpickler would fail on it too, or it exceeds a bound. FIL107; the
            evidence holds `position`, the offset in the pickle.
    """
    return _Machine(data).run(max_steps)


class _Machine:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.stack: list[Node] = []
        self.marks: list[int] = []
        self.memo: dict[int, Node] = {}
        self.globals: dict[tuple[str, str], Global] = {}
        self.calls: list[Call] = []
        self.builds: list[tuple[Node, Node]] = []
        self.num_nodes = 0
        self.protocol = 0

    def run(self, max_steps: int) -> Pickle:
        start = 0
        try:
            for _ in range(max_steps):
                start = self.at
                if start >= len(self.data):
                    raise self.error("ends without STOP", start)
                opcode = self.data[start]
                self.at = start + 1
                if opcode == _STOP:
                    return self._result()
                action = _ACTIONS.get(opcode)
                if action is None:
                    raise self.error(f"has no opcode 0x{opcode:02x}", start)
                action(self)
        except MalformedError:
            raise
        except (IndexError, struct.error):
            raise self.error("takes from an empty stack or ends within an opcode", start) from None
        except (ValueError, OverflowError) as error:
            raise self.error(f"holds an impossible value ({error})", start) from None
        raise self.error(f"has more than {max_steps} opcodes", self.at)

    def _result(self) -> Pickle:
        return Pickle(
            result=self.pop(),
            globals=list(self.globals.values()),
            calls=self.calls,
            builds=self.builds,
            num_nodes=self.num_nodes,
            end=self.at,
            protocol=self.protocol,
        )

    # -- reading ---------------------------------------------------------------------------------

    def error(self, what: str, position: int) -> MalformedError:
        return malformed(f"the pickle {what}", evidence={"position": position})

    def take(self, length: int) -> bytes:
        end = self.at + length
        if end > len(self.data):
            left = len(self.data) - self.at
            raise self.error(f"wants {length} bytes where {left} are left", self.at)
        piece = self.data[self.at : end]
        self.at = end
        return piece

    def number(self, layout: struct.Struct) -> Any:
        return layout.unpack(self.take(layout.size))[0]

    def line(self) -> bytes:
        end = self.data.find(b"\n", self.at)
        if end < 0:
            raise self.error("ends within a line", self.at)
        piece = self.data[self.at : end]
        self.at = end + 1
        return piece

    # -- the stack -------------------------------------------------------------------------------

    def push(self, node: Node) -> None:
        self.stack.append(node)

    def pop(self) -> Node:
        if self.marks and self.marks[-1] == len(self.stack):
            raise IndexError
        return self.stack.pop()

    def top(self) -> Node:
        if self.marks and self.marks[-1] == len(self.stack):
            raise IndexError
        return self.stack[-1]

    def pop_mark(self) -> list[Node]:
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def new(self, node: Node) -> None:
        self.num_nodes += 1
        self.stack.append(node)

    # -- what opcodes do -------------------------------------------------------------------------

    def reference(self, module: str, name: str, position: int) -> Global:
        return self.globals.setdefault((module, name), Global(module, name, position))

    def call(self, kind: CallKind, function: Node, args: Node, kwargs: Node = None) -> None:
        made = Call(kind, function, args, kwargs, self.at - 1)
        self.calls.append(made)
        self.new(made)

    def extend(self, items: list[Node]) -> None:
        target = self.top()
        if not isinstance(target, (ListNode, SetNode, Call)):
            raise self.error("appends to what is no list", self.at - 1)
        target.items.extend(items)

    def set_items(self, items: list[Node]) -> None:
        target = self.top()
        if not isinstance(target, (DictNode, Call)) or len(items) % 2:
            raise self.error("sets items of what is no dictionary", self.at - 1)
        target.pairs.extend(zip(items[::2], items[1::2], strict=True))

    def build(self) -> None:
        state = self.pop()
        target = self.top()
        if isinstance(target, Call):
            target.state = state
        self.builds.append((target, state))

    def memoize(self, key: int) -> None:
        if key < 0:
            raise ValueError("negative memo key")
        self.memo[key] = self.top()

    def recall(self, key: int) -> None:
        if key not in self.memo:
            raise self.error(f"recalls memo {key}, which was never stored", self.at - 1)
        self.stack.append(self.memo[key])

    def pop_one(self) -> None:
        if self.marks and self.marks[-1] == len(self.stack):
            self.marks.pop()
        else:
            self.stack.pop()

    def proto(self) -> None:
        protocol = self.take(1)[0]
        if protocol > _HIGHEST_PROTOCOL:
            raise self.error(f"is of protocol {protocol}, which is not known", self.at - 2)
        self.protocol = max(self.protocol, protocol)

    def frame(self) -> None:
        length = self.number(_U64)
        if length > len(self.data) - self.at:
            raise self.error("has a frame longer than itself", self.at - 9)

    def stack_global(self) -> None:
        name, module = self.pop(), self.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise self.error("imports a name that is no text", self.at - 1)
        self.push(self.reference(module, name, self.at - 1))

    def line_global(self) -> Global:
        position = self.at - 1
        module = self.line().decode("utf-8", "surrogateescape")
        name = self.line().decode("utf-8", "surrogateescape")
        return self.reference(module, name, position)

    def inst(self) -> None:
        function = self.line_global()
        self.call(CallKind.INST, function, TupleNode(self.pop_mark()))

    def obj(self) -> None:
        function, *args = self.pop_mark()
        self.call(CallKind.OBJ, function, TupleNode(args))

    def reduce(self) -> None:
        args = self.pop()
        self.call(CallKind.REDUCE, self.pop(), args)

    def newobj(self) -> None:
        args = self.pop()
        self.call(CallKind.NEWOBJ, self.pop(), args)

    def newobj_ex(self) -> None:
        kwargs, args = self.pop(), self.pop()
        self.call(CallKind.NEWOBJ_EX, self.pop(), args, kwargs)

    def frozenset(self) -> None:
        self.new(SetNode(self.pop_mark()))

    def dict(self) -> None:
        items = self.pop_mark()
        if len(items) % 2:
            raise self.error("makes a dictionary of an odd number of items", self.at - 1)
        self.new(DictNode(list(zip(items[::2], items[1::2], strict=True))))

    def tuple_of(self, count: int) -> None:
        if len(self.stack) - (self.marks[-1] if self.marks else 0) < count:
            raise IndexError
        items = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        self.new(TupleNode(items))

    def set_item(self) -> None:
        value, key = self.pop(), self.pop()
        self.set_items([key, value])

    def integer_line(self) -> None:
        text = self.line()
        if text in (b"00", b"01"):
            self.push(text == b"01")
        else:
            self.push(_parse_integer(text, 0))

    def string_line(self) -> None:
        text = self.line().strip()
        if len(text) < 2 or text[0] != text[-1] or text[:1] not in (b"'", b'"'):
            raise self.error("holds a string without quotes", self.at)
        self.push(Text(codecs.escape_decode(text[1:-1])[0]))

    def blob(self, length: int) -> None:
        start = self.at
        self.push(Blob(self.take(length), start))

    def text(self, length: int) -> None:
        # "surrogatepass", as every unpickler does; the rest cannot be decoded by them either.
        self.push(self.take(length).decode("utf-8", "surrogatepass"))

    def out_of_band(self) -> None:
        raise self.error("wants a buffer from outside, which a file does not have", self.at - 1)


def _parse_integer(text: bytes, base: int) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError("an integer of too many digits")
    return int(text.decode("ascii").strip().rstrip("\0"), base)


def _number(layout: struct.Struct) -> Callable[[_Machine], None]:
    return lambda m: m.push(m.number(layout))


def _long(layout: struct.Struct) -> Callable[[_Machine], None]:
    def act(m: _Machine) -> None:
        length = m.number(layout)
        if length < 0:
            raise ValueError("negative length")
        m.push(int.from_bytes(m.take(length), "little", signed=True))

    return act


def _sized(
    read: Callable[[_Machine, int], None], layout: struct.Struct
) -> Callable[[_Machine], None]:
    def act(m: _Machine) -> None:
        length = m.number(layout)
        if length < 0:
            raise ValueError("negative length")
        read(m, length)

    return act


def _text8(m: _Machine, length: int) -> None:
    m.push(Text(m.take(length)))


def _constant(value: Any) -> Callable[[_Machine], None]:
    return lambda m: m.push(value)


_STOP: Final = ord(".")
_U8, _U16, _I32, _U32 = (struct.Struct(f"<{code}") for code in "BHiI")
_U64, _F64 = struct.Struct("<Q"), struct.Struct(">d")

_BY_NAME: Final[dict[bytes, Callable[[_Machine], None]]] = {
    # marks and the stack
    b"(": lambda m: m.marks.append(len(m.stack)),
    b"0": _Machine.pop_one,
    b"1": lambda m: m.pop_mark() and None,
    b"2": lambda m: m.push(m.top()),
    # protocol and frames
    b"\x80": _Machine.proto,
    b"\x95": _Machine.frame,
    # constants and numbers
    b"N": _constant(None),
    b"\x88": _constant(True),
    b"\x89": _constant(False),
    b"I": _Machine.integer_line,
    b"L": lambda m: m.push(_parse_integer(m.line().removesuffix(b"L"), 0)),
    b"F": lambda m: m.push(float(m.line().decode("ascii"))),
    b"J": _number(_I32),
    b"K": _number(_U8),
    b"M": _number(_U16),
    b"G": _number(_F64),
    b"\x8a": _long(_U8),
    b"\x8b": _long(_I32),
    # text and bytes
    b"S": _Machine.string_line,
    b"T": _sized(_text8, _I32),
    b"U": _sized(_text8, _U8),
    b"V": lambda m: m.push(m.line().decode("raw-unicode-escape")),
    b"X": _sized(_Machine.text, _U32),
    b"\x8c": _sized(_Machine.text, _U8),
    b"\x8d": _sized(_Machine.text, _U64),
    b"B": _sized(_Machine.blob, _U32),
    b"C": _sized(_Machine.blob, _U8),
    b"\x8e": _sized(_Machine.blob, _U64),
    b"\x96": _sized(_Machine.blob, _U64),
    b"\x97": _Machine.out_of_band,
    b"\x98": _Machine.out_of_band,
    # containers
    b"]": lambda m: m.new(ListNode([])),
    b"l": lambda m: m.new(ListNode(m.pop_mark())),
    b"a": lambda m: m.extend([m.pop()]),
    b"e": lambda m: m.extend(m.pop_mark()),
    b")": lambda m: m.new(TupleNode([])),
    b"t": lambda m: m.new(TupleNode(m.pop_mark())),
    b"\x85": lambda m: m.tuple_of(1),
    b"\x86": lambda m: m.tuple_of(2),
    b"\x87": lambda m: m.tuple_of(3),
    b"}": lambda m: m.new(DictNode([])),
    b"d": _Machine.dict,
    b"s": _Machine.set_item,
    b"u": lambda m: m.set_items(m.pop_mark()),
    b"\x8f": lambda m: m.new(SetNode([])),
    b"\x90": lambda m: m.extend(m.pop_mark()),
    b"\x91": _Machine.frozenset,
    # the memo
    b"p": lambda m: m.memoize(_parse_integer(m.line(), 10)),
    b"q": lambda m: m.memoize(m.number(_U8)),
    b"r": lambda m: m.memoize(m.number(_U32)),
    b"\x94": lambda m: m.memoize(len(m.memo)),
    b"g": lambda m: m.recall(_parse_integer(m.line(), 10)),
    b"h": lambda m: m.recall(m.number(_U8)),
    b"j": lambda m: m.recall(m.number(_U32)),
    # names, calls and objects from outside
    b"c": lambda m: m.push(m.line_global()),
    b"\x93": _Machine.stack_global,
    b"\x82": lambda m: m.push(Extension(m.number(_U8))),
    b"\x83": lambda m: m.push(Extension(m.number(_U16))),
    b"\x84": lambda m: m.push(Extension(m.number(_I32))),
    b"R": _Machine.reduce,
    b"\x81": _Machine.newobj,
    b"\x92": _Machine.newobj_ex,
    b"i": _Machine.inst,
    b"o": _Machine.obj,
    b"b": _Machine.build,
    b"P": lambda m: m.new(Persistent(m.line().decode("utf-8", "surrogateescape"))),
    b"Q": lambda m: m.new(Persistent(m.pop())),
}
_ACTIONS: Final = {name[0]: action for name, action in _BY_NAME.items()}

"""The opcodes of pickle protocols 0 to 5, and the loop that follows them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from everybit.files.damage import MalformedError, TooLargeError
from everybit.files.pickles import operands
from everybit.files.pickles.hot import run
from everybit.files.pickles.machine import Machine
from everybit.files.pickles.nodes import Change, DictNode, ListNode, SetNode, Text, TupleNode

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.files.pickles.nodes import Pickle

#: Opcodes; a pickle of a hundred thousand tensors has about three million. At a hundred bytes for
#: the smallest object that one opcode makes, this bounds memory too.
MAX_STEPS: Final = 10_000_000


def interpret(data: bytes, *, max_steps: int | None = None) -> Pickle:
    """Follow one pickle from its first opcode to STOP.

    Args:
        data: The pickle; what follows STOP is not looked at.
        max_steps: Most opcodes to follow; `MAX_STEPS` where None.

    Raises:
        MalformedError: An unpickler would fail on it too (FIL107); the evidence holds
            `position`, the offset in the pickle.
        TooLargeError: It has more opcodes.
    """
    machine = Machine(data)
    error, _ = follow(machine, MAX_STEPS if max_steps is None else max_steps)
    if error is not None:
        raise error
    return machine.result()


def follow(machine: Machine, max_steps: int) -> tuple[MalformedError | None, int]:
    """Run a machine to STOP, which leaves the result on its stack.

    Returns:
        Why it had to end before, or None, and the number of opcodes that it followed.
    """
    data = machine.data
    error: MalformedError
    try:
        if not run(machine, _TABLE, max_steps):
            bound = machine.error(f"has more than {max_steps} opcodes", machine.at)
            return TooLargeError(bound.damage), machine.steps
        code = data[machine.begun]
        if code != _STOP:
            raise machine.error(f"has no opcode 0x{code:02x}", machine.begun)
        if machine.marks or not machine.stack:
            machine.top()
    except MalformedError as fault:
        error = fault
    except (IndexError, struct.error):
        what = "takes from an empty stack or ends within an opcode"
        error = machine.error(what, machine.begun)
    except (ValueError, OverflowError) as fault:
        error = machine.error(f"holds an impossible value ({fault})", machine.begun)
    except MemoryError:
        machine.forget()
        bound = machine.error("takes more memory to follow than there is", machine.begun)
        error = TooLargeError(bound.damage)
    else:
        return None, machine.steps
    return error, machine.steps


def _number(layout: struct.Struct) -> Callable[[Machine], None]:
    return lambda m: m.push(m.number(layout))


def _long(layout: struct.Struct) -> Callable[[Machine], None]:
    def act(m: Machine) -> None:
        length = m.number(layout)
        if length < 0:
            raise ValueError("negative length")
        m.push(int.from_bytes(m.take(length), "little", signed=True))

    return act


def _sized(
    read: Callable[[Machine, int], None], layout: struct.Struct
) -> Callable[[Machine], None]:
    def act(m: Machine) -> None:
        length = m.number(layout)
        if length < 0:
            raise ValueError("negative length")
        read(m, length)

    return act


def _text8(m: Machine, length: int) -> None:
    m.push(Text(m.take(length)))


def _constant(value: Any) -> Callable[[Machine], None]:
    return lambda m: m.push(value)


_STOP: Final = ord(".")
_U8, _U16, _I32, _U32 = (struct.Struct(f"<{code}") for code in "BHiI")
_U64, _F64 = struct.Struct("<Q"), struct.Struct(">d")

_BY_NAME: Final[dict[bytes, Callable[[Machine], None]]] = {
    # marks and the stack
    b"(": lambda m: m.marks.append(len(m.stack)),
    b"0": Machine.pop_one,
    b"1": Machine.pop_to_mark,
    b"2": lambda m: m.push(m.top()),
    # protocol and frames
    b"\x80": Machine.proto,
    b"\x95": Machine.frame,
    # constants and numbers
    b"N": _constant(None),
    b"\x88": _constant(True),
    b"\x89": _constant(False),
    b"I": operands.integer_line,
    b"L": operands.long_line,
    b"F": operands.float_line,
    b"J": _number(_I32),
    b"K": _number(_U8),
    b"M": _number(_U16),
    b"G": _number(_F64),
    b"\x8a": _long(_U8),
    b"\x8b": _long(_I32),
    # text and bytes
    b"S": operands.string_line,
    b"T": _sized(_text8, _I32),
    b"U": _sized(_text8, _U8),
    b"V": lambda m: m.push(m.line().decode("raw-unicode-escape")),
    b"X": _sized(operands.text, _U32),
    b"\x8c": _sized(operands.text, _U8),
    b"\x8d": _sized(operands.text, _U64),
    b"B": _sized(operands.blob, _U32),
    b"C": _sized(operands.blob, _U8),
    b"\x8e": _sized(operands.blob, _U64),
    b"\x96": _sized(operands.byte_array, _U64),
    b"\x97": Machine.out_of_band,
    b"\x98": Machine.read_only,
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
    b"d": Machine.dict,
    b"s": Machine.set_item,
    b"u": lambda m: m.set_items(m.pop_mark()),
    b"\x8f": lambda m: m.new(SetNode([])),
    b"\x90": lambda m: m.extend(m.pop_mark(), Change.ADD),
    b"\x91": Machine.frozenset,
    # the memo
    b"p": lambda m: m.memoize(operands.index_line(m)),
    b"q": lambda m: m.memoize(m.number(_U8)),
    b"r": lambda m: m.memoize(m.number(_U32)),
    b"\x94": lambda m: m.memoize(len(m.memo)),
    b"g": lambda m: m.recall(operands.index_line(m)),
    b"h": lambda m: m.recall(m.number(_U8)),
    b"j": lambda m: m.recall(m.number(_U32)),
    # names, calls and objects from outside
    b"c": lambda m: m.push(m.line_global()),
    b"\x93": Machine.stack_global,
    b"\x82": lambda m: m.extension(m.number(_U8)),
    b"\x83": lambda m: m.extension(m.number(_U16)),
    b"\x84": lambda m: m.extension(m.number(_I32)),
    b"R": Machine.reduce,
    b"\x81": Machine.newobj,
    b"\x92": Machine.newobj_ex,
    b"i": Machine.inst,
    b"o": Machine.obj,
    b"b": lambda m: m.build(),  # a subclass may look at what was built
    b"P": lambda m: m.outside(m.line().decode("utf-8", "surrogateescape")),
    b"Q": lambda m: m.outside(m.pop()),
}
_ACTIONS: Final = {name[0]: action for name, action in _BY_NAME.items()}
#: What torch's own unpickler has and does in the same way. Three more stand in the loop itself.
_SHARED: Final = frozenset(b"(N\x88\x89JKMG\x8aX]})t\x85\x86\x87aesuqrhjcRbQ\x80")


def _alone(action: Callable[[Machine], None]) -> Callable[[Machine], None]:
    """Return the action of an opcode that torch's own unpickler lacks, or reads differently."""

    def act(m: Machine) -> None:
        m.shared = False
        action(m)

    return act


_TABLE: Final = [
    action if action is None or code in _SHARED else _alone(action)
    for code, action in ((code, _ACTIONS.get(code)) for code in range(256))
]

"""The opcodes of torch's weights_only unpickler, and the loop that follows them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from everybit.files.damage import MalformedError
from everybit.files.pickles.nodes import CallKind, DictNode, ListNode, SetNode, TupleNode
from everybit.files.pickles.opcodes import MAX_STEPS
from everybit.files.pickles.reader import PickleEndsError
from everybit.files.weights_only.names import opcode_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.files.weights_only.unpickler import TorchMachine


def run(machine: TorchMachine, *, max_steps: int = MAX_STEPS) -> None:
    """Walk one pickle from its first opcode to STOP as torch does; its result is left on top.

    Where torch raises, or is not proved not to, the machine's `refusals` say why.

    Raises:
        PickleEndsError: The bytes end before the pickle does.
    """
    data, start = machine.data, machine.at
    try:
        for _ in range(max_steps):
            start = machine.at
            if start >= len(data):
                raise machine.ended("ends without STOP", start)
            machine.at = start + 1
            code = data[start]
            if code == _STOP:
                if not machine.stack:
                    raise IndexError
                return
            action = _ACTIONS.get(code)
            if action is None:
                what = f"uses opcode {opcode_name(code)}, which torch lacks"
                machine.refuse(what, start, usual=True)  # newer protocols have it
                return
            action(machine)
        machine.refuse(f"has more than {max_steps} opcodes", start, proved=False)
    except PickleEndsError:
        raise
    except MalformedError as error:
        machine.refuse(error.damage.message.removeprefix("the pickle "), start)
    except IndexError:
        machine.refuse("takes from an empty stack", start)
    except (ValueError, OverflowError) as error:
        machine.refuse(f"holds an impossible value ({str(error)[:80]})", start)


def _number(layout: struct.Struct) -> Callable[[TorchMachine], None]:
    return lambda m: m.stack.append(m.number(layout))


def _constant(value: Any) -> Callable[[TorchMachine], None]:
    return lambda m: m.stack.append(value)


def _memoize(layout: struct.Struct) -> Callable[[TorchMachine], None]:
    def act(m: TorchMachine) -> None:
        m.memo[m.number(layout)] = m.stack[-1]

    return act


def _long(m: TorchMachine) -> None:
    m.stack.append(int.from_bytes(m.take(m.take(1)[0]), "little", signed=True))


def _text(m: TorchMachine) -> None:
    m.stack.append(m.take(m.number(_U32)).decode("utf-8", "surrogatepass"))


def _short_text(m: TorchMachine) -> None:
    # UTF-8 is what torch.load asks its unpickler for.
    m.stack.append(m.take(m.take(1)[0]).decode("utf-8"))


def _protocol(m: TorchMachine) -> None:
    m.take(1)  # any number; torch warns for all but two


def _set_item(m: TorchMachine) -> None:
    value = m.stack.pop()
    m.set_items([m.stack.pop(), value])


_STOP: Final = ord(".")
_U8, _U16, _I32, _U32 = (struct.Struct(f"<{code}") for code in "BHiI")
_F64: Final = struct.Struct(">d")

_BY_BYTE: Final[dict[bytes, Callable[[TorchMachine], None]]] = {
    b"\x80": _protocol,
    b"(": lambda m: m.mark(),
    b"N": _constant(None),
    b"\x88": _constant(True),
    b"\x89": _constant(False),
    b"J": _number(_I32),
    b"K": _number(_U8),
    b"M": _number(_U16),
    b"G": _number(_F64),
    b"\x8a": _long,
    b"X": _text,
    b"U": _short_text,
    b"]": lambda m: m.stack.append(ListNode([])),
    b"}": lambda m: m.stack.append(DictNode([])),
    b")": lambda m: m.stack.append(TupleNode([])),
    b"\x8f": lambda m: m.stack.append(SetNode([])),
    b"t": lambda m: m.push(TupleNode(m.pop_mark())),
    b"\x85": lambda m: m.tuple_of(1),
    b"\x86": lambda m: m.tuple_of(2),
    b"\x87": lambda m: m.tuple_of(3),
    b"a": lambda m: m.extend([m.stack.pop()]),
    b"e": lambda m: m.extend(m.pop_mark()),
    b"s": _set_item,
    b"u": lambda m: m.set_items(m.pop_mark()),
    b"q": _memoize(_U8),
    b"r": _memoize(_U32),
    b"h": lambda m: m.recall(m.number(_U8)),
    b"j": lambda m: m.recall(m.number(_U32)),
    b"c": lambda m: m.push(m.global_name()),
    b"R": lambda m: m.call(CallKind.REDUCE),
    b"\x81": lambda m: m.call(CallKind.NEWOBJ),
    b"b": lambda m: m.build(),
    b"Q": lambda m: m.outside(),
}
_ACTIONS: Final = {code[0]: action for code, action in _BY_BYTE.items()}
#: The bytes of all opcodes that torch's unpickler knows.
SUPPORTED: Final = frozenset(_ACTIONS) | {_STOP}

"""The opcodes that a large pickle consists of, in their shortest form: half of the time is saved.

Each does what `Machine` says under its name. Where an operand might reach across the end of a
frame, or the bytes end, the general form takes over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.files.pickles.nodes import Call, CallKind, TupleNode

if TYPE_CHECKING:
    from everybit.files.pickles.machine import Machine


def mark(m: Machine) -> None:
    """MARK."""
    m.marks.append(len(m.stack))


def none(m: Machine) -> None:
    """NONE."""
    m.stack.append(None)


def byte(m: Machine) -> int:
    """Return the next byte, which no frame can part."""
    at = m.at
    data = m.data
    if at >= len(data):
        raise m.ended("wants 1 bytes where 0 are left", at)
    m.at = at + 1
    return data[at]


def small_integer(m: Machine) -> None:
    """BININT1."""
    m.stack.append(byte(m))


def short_integer(m: Machine) -> None:
    """BININT2."""
    at = m.at
    if m.frame_end > at or at + 2 > len(m.data):
        m.stack.append(int.from_bytes(m.take(2), "little"))
        return
    m.at = at + 2
    m.stack.append(m.data[at] | m.data[at + 1] << 8)


def put(m: Machine) -> None:
    """BINPUT."""
    memoize(m, byte(m))


def long_put(m: Machine) -> None:
    """LONG_BINPUT."""
    memoize(m, int.from_bytes(m.take(4), "little"))


def memoize(m: Machine, key: int) -> None:
    """Store the top under a key that is not negative."""
    stack = m.stack
    if m.marks and m.marks[-1] == len(stack):
        raise IndexError
    top = stack[-1]
    if m.memo.setdefault(key, top) is not top:
        m.memoize(key)


def get(m: Machine) -> None:
    """BINGET."""
    key = byte(m)
    if key in m.memo:
        m.stack.append(m.memo[key])
    else:
        m.recall(key)


def long_get(m: Machine) -> None:
    """LONG_BINGET."""
    m.recall(int.from_bytes(m.take(4), "little"))


def unicode(m: Machine) -> None:
    """BINUNICODE."""
    text(m, int.from_bytes(m.take(4), "little"))


def short_unicode(m: Machine) -> None:
    """SHORT_BINUNICODE."""
    text(m, byte(m))


def text(m: Machine, length: int) -> None:
    """Read a text of so many bytes, and put it on the stack."""
    at = m.at
    end = at + length
    if m.frame_end > at or end > len(m.data):
        piece = m.take(length)
    else:
        piece = m.data[at:end]
        m.at = end
    # "surrogatepass", as every unpickler does; the rest cannot be decoded by them either.
    m.stack.append(piece.decode("utf-8", "surrogatepass"))


def empty_tuple(m: Machine) -> None:
    """EMPTY_TUPLE."""
    m.num_nodes += 1
    m.stack.append(TupleNode([]))


def tuple_(m: Machine) -> None:
    """TUPLE."""
    start = m.marks.pop()
    stack = m.stack
    items = stack[start:]
    del stack[start:]
    m.num_nodes += 1
    stack.append(TupleNode(items))


def reduce(m: Machine) -> None:
    """REDUCE."""
    stack = m.stack
    if len(stack) - (m.marks[-1] if m.marks else 0) < 2:
        raise IndexError
    args = stack.pop()
    made = Call(CallKind.REDUCE, stack[-1], args, None, m.at - 1)
    m.calls.append(made)
    m.num_nodes += 1
    stack[-1] = made

"""The loop with opcodes written out in it does what the table of actions says, for any bytes."""

from __future__ import annotations

import pickle
from random import Random
from typing import TYPE_CHECKING, Any

from bench.mutations import mutate_pickle
from tests.files.pickles.assembler import build, call, name, new, pickled

from everybit.files.pickles import opcodes
from everybit.files.pickles.nodes import Oddity
from everybit.files.pickles.stream import read_pickles

if TYPE_CHECKING:
    from everybit.files.pickles.machine import Machine

_STEPS = 100_000
#: Which byte of an opcode an oddity stands at is not the same.
_WITHIN = (Oddity, "position")
_VALUES = (
    {"a": [1, -2, 3000, 2**40, 1.5, None, True, False], "b": (b"x", "ä\ud800", {1, 2})},
    [("x" * 300, i, (i,), (i, i), (i, i, i), frozenset({i})) for i in range(40)],
    complex(1, 2), slice(1, 2), pickle.Pickler, [bytearray(b"12")] * 2,
)  # fmt: skip
_MADE = (
    pickled(build(call(name("os", "system"), "ls"), {"a": 1})),
    pickled([new(name("a", "B"), 1, "2"), call(name("a", "b")), {1: (None, "x")}], 2),
    b"\x80\x02cos\nsystem\nq\x00.\x80\x02h\x00X\x02\x00\x00\x00ls\x85R.",
    b"cos\nsystem\n(S'ls'\ntR.",
    b"(ios\nsystem\nI01\n.",
    b"\x80\x04\x95\x05\0\0\0\0\0\0\0cos\nx\n.",
    b"\x80\x04\x95\x04\0\0\0\0\0\0\0\x8c\x05abcdeK\x01\x86.",
    b"]r\x00\x01\x00\x00j\x00\x01\x00\x00a.",
)  # fmt: skip


def _by_the_table(m: Machine, actions: Any, max_steps: int) -> bool:
    """What `hot.run` does, with no opcode written out."""
    for m.steps in range(1, max_steps + 1):
        m.begun = m.at
        if m.at >= len(m.data):
            raise m.ended("ends without STOP", m.at)
        action = actions[m.data[m.at]]
        m.at += 1
        if action is None:
            return True
        action(m)
    return False


def _told(value: Any) -> list[Any]:
    """All that hangs on a node: each object once, its parts by their numbers."""
    numbers: dict[int, int] = {}
    told: list[Any] = []
    todo = [value]

    def refer(part: Any) -> Any:
        held = isinstance(part, (list, tuple)) or hasattr(type(part), "__slots__")
        if not held or isinstance(part, str):
            return repr(part)
        if id(part) not in numbers:
            numbers[id(part)] = len(numbers)
            todo.append(part)
        return numbers[id(part)]

    while todo:
        node = todo.pop()
        if isinstance(node, (list, tuple)):
            told.append([refer(part) for part in node])
        else:
            slots = [slot for slot in type(node).__slots__ if (type(node), slot) != _WITHIN]
            parts = {slot: refer(getattr(node, slot)) for slot in slots}
            told.append((type(node).__name__, parts))
    return told


def _all(data: bytes) -> Any:
    stream = read_pickles(data, max_steps=_STEPS)
    told = []
    for one in (*stream.pickles, *stream.others):
        error = one.error and (type(one.error).__name__, one.error.damage)
        if one.error is not None:
            one.end, one.error = -1, None  # how much of the broken opcode was taken says nothing
        told.append((_told(one), repr(error)))
    return told, stream.end


def test_any_bytes_are_read_as_the_table_reads_them(monkeypatch):
    whole = [*_MADE, *(pickle.dumps(value, at) for value in _VALUES for at in range(6))]
    rng = Random(7)
    tried = [*whole, *(mutate_pickle(rng.choice(whole), rng)[:4000] for _ in range(800))]
    quick = [_all(data) for data in tried]
    monkeypatch.setattr(opcodes, "run", _by_the_table)
    for data, told in zip(tried, quick, strict=True):
        assert _all(data) == told, data

from __future__ import annotations

import pickle
import pickletools
import struct
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everybit.files.damage import MalformedError
from everybit.files.pickles.nodes import (
    Blob,
    Call,
    CallKind,
    DictNode,
    Global,
    ListNode,
    Persistent,
    SetNode,
    Text,
    TupleNode,
)
from everybit.files.pickles.opcodes import _ACTIONS, interpret


def plain(node):
    """What the machine's nodes stand for, as Python values."""
    if isinstance(node, DictNode):
        return {plain(key): plain(value) for key, value in node.pairs}
    if isinstance(node, ListNode):
        return [plain(item) for item in node.items]
    if isinstance(node, TupleNode):
        return tuple(plain(item) for item in node.items)
    if isinstance(node, SetNode):
        return {plain(item) for item in node.items}
    if isinstance(node, Blob):
        return node.data
    if isinstance(node, Text):
        return node.data.decode()
    return node


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(values, st.integers(0, 5))
@settings(derandomize=True, max_examples=200)
def test_plain_values_of_every_protocol_read_as_unpickling_reads_them(value, protocol):
    data = pickle.dumps(value, protocol)
    assert plain(interpret(data).result) == value
    slow = pickle._dumps(value, protocol)  # the Python pickler writes other opcodes
    assert plain(interpret(slow).result) == value


def test_bytes_sets_and_frozensets():
    value = {"a": b"x" * 300, "b": {1, 2}, "c": bytearray(b"yy")}
    assert plain(interpret(pickle.dumps(value, 5)).result) == value
    assert plain(interpret(pickle.dumps(frozenset({3}), 4)).result) == {3}


def test_every_opcode_is_known():
    known = {opcode.code.encode("latin1")[0] for opcode in pickletools.opcodes}
    assert known == {*_ACTIONS, ord(".")}


class Evil:
    def __reduce__(self):
        return (exec, ("raise SystemExit('executed')",))


@pytest.mark.parametrize("protocol", range(6))
def test_calls_and_names_are_recorded_and_nothing_runs(protocol):
    found = interpret(pickle.dumps([Evil()], protocol))
    (made,) = [call for call in found.calls if call.name.endswith(".exec")]
    assert made.kind is CallKind.REDUCE
    assert made.arguments == ["raise SystemExit('executed')"]
    assert "exec" in {reference.name for reference in found.globals}


def test_old_calls_are_recorded():
    inst = interpret(b"(S'ls'\nios\nsystem\n.")
    assert inst.calls[0].name == "os.system"
    obj = interpret(b"(cos\nsystem\nS'ls'\no.")
    assert obj.calls[0].kind is CallKind.OBJ
    assert obj.calls[0].arguments[0].data == b"ls"
    built = interpret(b"cos\nsystem\n)R}S'k'\nK\x01sb.")
    assert isinstance(built.result, Call)
    assert built.builds[0][0] is built.result
    persistent = interpret(b"Pabc\n.")
    assert isinstance(persistent.result, Persistent)


def test_numbers_as_the_c_unpickler_reads_them():
    assert interpret(b"I0x10\n.").result == 16
    assert interpret(b"I01\n.").result is True
    assert interpret(b"L123L\n.").result == 123
    assert interpret(b"\x8a\x02\xff\xff.").result == -1


def test_the_end_is_reported_and_what_follows_is_not_read():
    assert interpret(b"K\x01.garbage").end == 3


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"K\x01",
        b"\x80\x07N.",
        b".",
        b"0.",
        b"t.",
        b"a.",
        b"(K\x01a.",
        b"h\x05.",
        b"g7\n.",
        b"q\x00.",
        b"\xff.",
        b"X\xff\xff\xff\xff.",
        b"\x8e" + struct.pack("<Q", 1 << 62) + b".",
        b"\x8b" + struct.pack("<i", -5) + b".",
        b"\x8b" + struct.pack("<i", 1 << 30) + b".",
        b"T" + struct.pack("<i", -1) + b".",
        b"\x95" + struct.pack("<Q", 1 << 60) + b"N.",
        b"I" + b"9" * 5000 + b"\n.",
        b"Iabc\n.",
        b"S'open\n.",
        b"\x97.",
        b"K\x01K\x02\x93.",
        b"}K\x01s.",
        b"(K\x01d.",
        b"p-1\n.",
        b"X\x02\x00\x00\x00\xff\xfe.",
        b"cabc",
    ],
)
def test_what_no_unpickler_would_read_is_malformed(data):
    with pytest.raises(MalformedError) as caught:
        interpret(data)
    assert caught.value.rule == "FIL107"
    assert caught.value.damage.evidence["position"] >= 0


def test_a_bomb_of_shared_lists_costs_what_its_bytes_cost():
    # Each list holds the previous one ten times: 10^60 leaves if it were copied.
    data = b"]q\x00"
    for _ in range(60):
        data += b"]q\x01(" + b"h\x00" * 10 + b"eq\x00"
    began = time.perf_counter()
    interpret(data + b".")
    assert time.perf_counter() - began < 1


def test_depth_and_cycles_do_not_recurse():
    deep = interpret(b"]" * 200_000 + b"a" * 199_999 + b".")
    del deep
    cyclic = interpret(b"]q\x00h\x00a.").result
    assert cyclic.items[0] is cyclic


def test_memory_is_bounded_by_the_pickle():
    tracemalloc.start()
    data = b"]" * 100_000 + b"."
    interpret(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 400 * len(data)


def test_too_many_opcodes_are_refused():
    with pytest.raises(MalformedError, match="more than 10 opcodes"):
        interpret(b"N0" * 50 + b".", max_steps=10)


def test_a_name_is_one_node_wherever_it_stands():
    found = interpret(b"(cos\nsystem\ncos\nsystem\nt.")
    first, second = found.result.items
    assert isinstance(first, Global)
    assert first is second

from __future__ import annotations

import array
import contextlib
import math
import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everybit.core.link import Link
from everybit.core.observation import StepRecord, TensorTable
from everybit.ledger.payload import PayloadError
from everybit.ledger.step import (
    decode_step,
    decode_tables,
    encode_step,
    encode_tables,
    encode_words,
    step_number,
)

WORDS = st.integers(0, 2**64 - 1)
FLOATS = st.floats(allow_nan=False)
TABLES = st.lists(
    st.tuples(st.sampled_from(Link), st.lists(WORDS, max_size=5)).map(
        lambda pair: TensorTable(
            link=pair[0],
            names=tuple(f"t{i}" for i in range(len(pair[1]))),
            digests=tuple(pair[1]),
        )
    ),
    max_size=4,
).map(tuple)
STEPS = st.builds(
    StepRecord,
    step=st.integers(0, 2**64 - 1),
    time_s=FLOATS,
    duration_s=FLOATS,
    guard_s=FLOATS,
    optimizer=st.text(max_size=8),
    skipped=st.booleans(),
    tainted=st.booleans(),
    losses=st.lists(FLOATS, max_size=3).map(tuple),
    scalars=st.dictionaries(st.text("grad_normé", max_size=20), FLOATS, max_size=4),
    tables=TABLES,
)


def round_trip(record: StepRecord) -> StepRecord:
    tables = list(record.tables)
    payload = memoryview(encode_step(record, range(len(tables))))
    assert step_number(payload) == (record.step, list(range(len(tables))))
    return decode_step(payload, lambda number: (tables[number].link, tables[number].names))


@given(STEPS)
@settings(derandomize=True, max_examples=200, deadline=None)
def test_a_step_is_read_back_equal(record: StepRecord) -> None:
    assert round_trip(record) == record


def test_nan_keeps_its_bits() -> None:
    odd_nan = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_0000_BEEF))[0]
    record = StepRecord(
        step=0, time_s=1.0, duration_s=math.nan, guard_s=0.0, losses=(math.inf, odd_nan)
    )
    read = round_trip(record)
    assert math.isnan(read.duration_s)
    assert read.losses[0] == math.inf
    assert struct.pack("<d", read.losses[1]) == struct.pack("<d", odd_nan)


@pytest.mark.parametrize(
    "digests",
    [
        (1, 2**64 - 1, 7),
        [1, 2**64 - 1, 7],
        np.array([1, 2**64 - 1, 7], np.uint64),
        np.array([1, -1, 7], np.int64),
        np.array([1, 0, 2**64 - 1, 0, 7], np.uint64)[::2],
        np.array([1, 2**64 - 1, 7], ">u8"),
        array.array("Q", [1, 2**64 - 1, 7]),
        (1, -1, 7),
    ],
    ids=["tuple", "list", "uint64", "int64", "strided", "big-endian", "array", "negative"],
)
def test_words_are_the_same_whatever_holds_them(digests: object) -> None:
    assert encode_words(digests) == struct.pack("<3Q", 1, 2**64 - 1, 7)  # type: ignore[arg-type]


def test_narrow_arrays_are_widened_not_misread() -> None:
    assert encode_words(np.array([1, 2], np.uint32)) == struct.pack("<2Q", 1, 2)
    assert encode_words(np.array([1.0, 2.0])) == struct.pack("<2Q", 1, 2)


def test_tables_are_equal_where_their_words_are() -> None:
    table = TensorTable(link=Link.GRAD, names=("a", "b"), digests=(1, 2**63))
    same = replace(table, digests=np.array([1, 2**63], np.uint64))
    assert table == same
    assert hash(table) == hash(same)
    assert same.as_dict() == {"a": 1, "b": 2**63}
    assert all(type(word) is int for _, word in same)
    assert table != replace(table, digests=(1, 2))
    assert table != replace(table, link=Link.UPDATE)
    assert table != 5


def test_tables_outside_a_step_are_read_back() -> None:
    tables = (TensorTable(link=Link.INIT, names=("w",), digests=(9,)),)
    payload = memoryview(encode_tables(4, tables, [0]))
    assert decode_tables(payload, lambda _: (Link.INIT, ("w",))) == (4, tables)


def test_a_table_whose_names_are_lost_is_left_out() -> None:
    tables = tuple(TensorTable(link=Link.GRAD, names=("w",), digests=(n,)) for n in (1, 2))
    record = StepRecord(step=0, time_s=0.0, duration_s=0.0, guard_s=0.0, tables=tables)
    payload = memoryview(encode_step(record, [0, 1]))
    read = decode_step(payload, lambda number: (Link.GRAD, ("w",)) if number else None)
    assert read == replace(record, tables=tables[1:])


@given(st.binary(max_size=120))
@settings(derandomize=True, max_examples=300, deadline=None)
def test_foreign_payloads_raise_one_error(data: bytes) -> None:
    for decode in (decode_step, decode_tables):
        with contextlib.suppress(PayloadError):
            decode(memoryview(data), lambda _: (Link.GRAD, ("w",)))


@pytest.mark.parametrize("at", [36, 40, 44])
def test_impossible_counts_are_refused(at: int) -> None:
    record = StepRecord(step=0, time_s=0.0, duration_s=0.0, guard_s=0.0)
    payload = bytearray(encode_step(record, []))
    payload[at : at + 4] = b"\xff" * 4
    with pytest.raises(PayloadError):
        decode_step(memoryview(payload), lambda _: None)

"""Delivered batches: what was written is read back, in few bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everybit.core.samples import Order, Promise, SampleRecord
from everybit.ledger import EndReason, RunWriter, open_run
from everybit.ledger.frame import OVERHEAD_BYTES
from everybit.ledger.payload import PayloadError
from everybit.ledger.samples import decode_samples, encode_samples

if TYPE_CHECKING:
    from pathlib import Path

WORD = st.integers(0, 2**64 - 1)
KEY = st.integers(-(2**62), 2**62)


@st.composite
def records(draw: st.DrawFn) -> SampleRecord:
    keys = draw(st.none() | st.lists(KEY, max_size=8).map(tuple))
    count = draw(st.integers(0, 5)) if keys is None else len(keys)
    words = draw(st.just(()) | st.lists(WORD, min_size=count, max_size=count).map(tuple))
    return SampleRecord(
        loader=draw(st.text(max_size=20)),
        epoch=draw(st.integers(0, 2**32 - 1)),
        batch=draw(st.integers(0, 2**32 - 1)),
        step=draw(st.integers(-1, 2**62)),
        worker=draw(st.integers(-1, 2**15 - 1)),
        rank=3,
        indices=keys,
        hashed=keys is not None and draw(st.booleans()),
        sample_digests=words,
        batch_digest=draw(WORD),
        worker_rng=draw(WORD),
    )


@given(records())
def test_what_was_written_is_read_back(record: SampleRecord) -> None:
    assert decode_samples(memoryview(encode_samples(record)), rank=3) == record


@given(st.binary(max_size=200))
def test_any_other_bytes_are_refused(data: bytes) -> None:
    try:
        record = decode_samples(memoryview(data))
    except PayloadError:
        return
    assert encode_samples(record)


def test_a_cut_payload_is_refused() -> None:
    payload = encode_samples(SampleRecord(loader="a", epoch=0, batch=0, indices=(1, 2)))
    for size in range(len(payload)):
        with pytest.raises(PayloadError):
            decode_samples(memoryview(payload[:size]))
    with pytest.raises(PayloadError):
        decode_samples(memoryview(payload + b"\0"))


def test_a_batch_takes_few_bytes() -> None:
    keys = tuple(range(17, 60_000, 1_874))
    record = SampleRecord(loader="MNIST", epoch=3, batch=77, step=2_000, worker=1, indices=keys)
    assert len(keys) == 33
    assert len(encode_samples(record)) + OVERHEAD_BYTES < 200
    # A digest a sample, its key, and its share of the frame.
    words = tuple(range(2**64 - 33, 2**64))
    whole = SampleRecord(loader="MNIST", epoch=3, batch=77, indices=keys, sample_digests=words)
    assert (len(encode_samples(whole)) + OVERHEAD_BYTES) / len(keys) < 16


def test_they_are_read_by_rank_beside_the_steps(tmp_path: Path) -> None:
    for rank in range(2):
        writer = RunWriter.open(tmp_path / "run", rank=rank, world_size=2)
        for batch in range(3):
            writer.samples(
                SampleRecord(loader="a", epoch=0, batch=batch, rank=rank, indices=(batch, rank))
            )
        writer.end(EndReason.CLEAN)
        writer.close()
    run = open_run(tmp_path / "run")
    assert [each.indices for each in run.samples(1)] == [(0, 1), (1, 1), (2, 1)]
    assert {each.rank for each in run.samples(1)} == {1}
    assert run.damage == ()


def test_a_promise_is_read_back() -> None:
    promise = Promise(order=Order.DISTRIBUTED, length=10, num_replicas=2, shard=1, once=True)
    assert Promise.from_json({**promise.to_json(), "later": 1}) == promise
    with pytest.raises(ValueError, match="odd"):
        Promise.from_json({"order": "odd"})

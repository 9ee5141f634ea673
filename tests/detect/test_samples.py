"""Judges of samples over plain records: the fault, and the nearest harmless thing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from everybit.core.samples import EpochEnd, Order, Promise, SampleRecord
from everybit.detect.resume_misaligned import judge_going_on
from everybit.detect.sample_missing import judge_missing, judge_shards
from everybit.detect.sample_repeated import judge_ranks
from everybit.detect.worker_died import judge_workers

ONCE = Promise(
    order=Order.RANDOM,
    sampler="RandomSampler",
    length=12,
    num_samples=12,
    once=True,
    whole=True,
    shuffle=True,
)


def batch(number: int, keys: tuple[int, ...], **facts: Any) -> SampleRecord:
    return SampleRecord(loader="data", epoch=0, batch=number, step=number, indices=keys, **facts)


def stream(keys: list[int], salt: int = 0) -> list[SampleRecord]:
    parts = [tuple(keys[at : at + 4]) for at in range(0, len(keys), 4)]
    return [
        batch(number, part, sample_digests=tuple(hash((key, salt)) & 0xFFFF for key in part))
        for number, part in enumerate(parts)
    ]


def end(promise: Promise = ONCE, *, whole: bool = True) -> EpochEnd:
    return EpochEnd(loader="data", epoch=0, num_batches=3, whole=whole, promise=promise, step=3)


def test_what_is_missing_at_the_end() -> None:
    seen = set(range(12)) - {7}
    finding = judge_missing(seen, end(), rank=0)
    assert finding is not None
    assert finding.rule == "DAT402"
    assert finding.evidence["samples"] == [7]
    assert judge_missing(set(range(12)), end(), rank=0) is None
    assert judge_missing(seen, end(whole=False), rank=0) is None
    dropped = replace(ONCE, drop_last=True, batch_size=5)
    assert judge_missing(set(range(10)), end(dropped), rank=0) is None
    assert judge_missing(set(range(9)), end(dropped), rank=0) is not None
    assert judge_missing(seen, end(replace(ONCE, once=False)), rank=0) is None
    assert judge_missing(seen, end(replace(ONCE, order=Order.CUSTOM)), rank=0) is None


def test_ranks_that_read_the_same() -> None:
    whole = list(range(12))
    (finding,) = judge_ranks([stream(whole), stream(whole[::-1])], [ONCE, ONCE])
    assert finding.rule == "DAT401"
    assert judge_ranks([stream(whole[:6]), stream(whole[6:])], [ONCE, ONCE]) == []
    # Each rank has files of its own: the same keys, and other samples.
    assert judge_ranks([stream(whole), stream(whole, salt=1)], [ONCE, ONCE]) == []
    # Each rank evaluates on everything.
    plain = replace(ONCE, shuffle=False, order=Order.SEQUENTIAL)
    assert judge_ranks([stream(whole), stream(whole)], [plain, plain]) == []
    shard = replace(ONCE, num_replicas=2)
    assert judge_ranks([stream(whole), stream(whole)], [shard, shard]) == []
    assert judge_ranks([stream(whole)], [ONCE]) == []


def test_shards_that_leave_something_out() -> None:
    shards = [
        replace(ONCE, order=Order.DISTRIBUTED, num_replicas=2, shard=n, num_samples=6)
        for n in (0, 1)
    ]
    even, odd = list(range(0, 12, 2)), list(range(1, 12, 2))
    assert judge_shards([stream(even), stream(odd)], shards) == []
    (finding,) = judge_shards([stream(even), stream(even)], shards)
    assert finding.rule == "DAT402"
    assert finding.evidence["samples"] == odd
    # A rank that left the epoch before its end says nothing about the others.
    assert judge_shards([stream(even), stream(odd[:2])], shards) == []


def test_a_resume_that_replays_or_skips() -> None:
    before = [batch(number, (number, number + 50)) for number in range(8)]
    after = [replace(each, step=number) for number, each in enumerate(before[5:])]
    assert judge_going_on(before, after, step=5) is None
    replayed = judge_going_on(before, [replace(before[3], step=0)], step=5)
    assert replayed is not None
    assert "2 batches are replayed" in replayed.message
    skipped = judge_going_on(before, [replace(before[6], step=0)], step=5)
    assert skipped is not None
    assert "1 batch is skipped" in skipped.message
    other = judge_going_on(before, [batch(0, (99, 98))], step=5)
    assert other is not None
    assert other.evidence["shift"] is None
    assert (str(other.severity), str(other.certainty)) == ("warning", "strong")
    assert "behind 5 batches of epoch 0" in other.message
    assert judge_going_on(before[:5], after, step=5) is None


def test_a_resume_between_two_passes() -> None:
    before = [batch(number, (number, number + 50)) for number in range(4)]
    before += [replace(batch(at, (at + 20,)), epoch=1, step=4 + at) for at in range(4)]
    # Another shuffle of a new pass, and a checkpoint at the end of the one before.
    assert judge_going_on(before, [batch(0, (99, 98))], step=4) is None
    assert judge_going_on(before, [batch(0, (99, 98))], step=5) is not None


def test_a_loop_that_fetches_a_batch_ahead() -> None:
    before = [replace(batch(at, (at, at + 50)), step=max(0, at - 1)) for at in range(8)]
    after = [replace(each, step=max(0, at - 1)) for at, each in enumerate(before[5:])]
    assert judge_going_on(before, after, step=5, ahead=1) is None
    skipped = judge_going_on(before, after[1:], step=5, ahead=1)
    assert skipped is not None
    assert skipped.evidence["shift"] == 1


def test_workers_that_ended() -> None:
    told: dict[str, Any] = {"loader": "data", "epoch": 0, "delivered": 4, "step": 4, "rank": 0}
    assert judge_workers({}, waiting={0: 2}, error="", **told) is None
    finding = judge_workers({1: -9}, waiting={0: 2, 1: 3}, error="killed", **told)
    assert finding is not None
    assert finding.evidence["lost_batches"] == 3
    assert "SIGKILL" in finding.message

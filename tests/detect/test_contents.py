"""Judges of batches' contents, over plain values: the fault, the nearest harmless thing."""

from __future__ import annotations

import random

import pytest

from everybit.core.contents import BatchFacts, Moved, SampleWords, StreamFact
from everybit.core.finding import Severity
from everybit.core.samples import SampleRecord
from everybit.detect.batch_nonfinite import BadValues, judge_values
from everybit.detect.handle_shared import Handle, judge_handles
from everybit.detect.label_maps import LabelMap, compare_maps
from everybit.detect.order_moved import OrderMoved
from everybit.detect.sample_changed import SampleBook
from everybit.detect.sample_swallowed import Swallowed
from everybit.detect.token_range import (
    TokenInput,
    gaps_in,
    gaps_meant,
    judge_failed,
    judge_gaps,
    judge_width,
)
from everybit.detect.worker_streams import WorkerStreams, judge_ranks

AT = {"step": 3, "rank": 0}


def batch(number=0, *, epoch=0, worker=-1, indices=None, **keys):
    return SampleRecord(
        loader="train", epoch=epoch, batch=number, worker=worker, indices=indices, **keys
    )


def drew(word, moved=Moved.DRAWN, name="dataset.rng"):
    return BatchFacts(streams=(StreamFact(name=name, start=word, moved=moved),), drew=True)


def test_two_workers_with_one_stream_are_told_once():
    judge = WorkerStreams()
    assert judge.judge(batch(worker=0), drew(7)) == []
    (finding,) = judge.judge(batch(1, worker=1), drew(7))
    assert (finding.rule, finding.severity) == ("DAT403", Severity.ERROR)
    assert finding.evidence["workers"] == [0, 1]
    assert judge.judge(batch(2, worker=2), drew(7)) == []


@pytest.mark.parametrize("moved", [Moved.RESEEDED, Moved.UNKNOWN, Moved.NO])
def test_streams_that_were_not_drawn_from_are_not_compared(moved):
    judge = WorkerStreams()
    assert judge.judge(batch(worker=0), drew(7, moved)) == []
    assert judge.judge(batch(1, worker=1), drew(7, moved)) == []
    assert judge.num_compared == 0


def test_a_stream_that_begins_again_is_told_where_the_order_is_renewed():
    for reshuffles in (True, False):
        judge = WorkerStreams()
        judge.judge(batch(worker=0), drew(7), reshuffles=reshuffles)
        again = judge.judge(batch(epoch=1, worker=0), drew(7), reshuffles=reshuffles)
        assert [each.evidence["kind"] for each in again] == ["restarted"] * reshuffles


def test_ranks_that_augment_alike():
    starts = {0: {"0 torch": 5, "1 torch": 6}, 1: {"0 torch": 5, "1 torch": 6}}
    (finding,) = judge_ranks("train", 0, starts, step=4)
    assert finding.evidence["ranks"] == [0, 1]
    assert finding.evidence["streams"] == ["torch"]
    # Worker 1 of a rank may well begin as worker 0 of the next one does not.
    assert judge_ranks("train", 0, {0: {"0 torch": 5}, 1: {"0 torch": 6}}, step=4) == []


def read(book, words, *, epoch=0, drawn=False):
    """Read all samples; `words` are inputs and labels by index."""
    inputs, labels = words
    samples = SampleWords.of(("0", "1"), (inputs, labels))
    indices = tuple(range(len(inputs)))
    book.read(batch(epoch=epoch, indices=indices), samples, drew=drawn)


WORDS = ([*range(100, 140)], [1 + each % 3 for each in range(40)])


def test_one_sample_of_many_that_changed():
    book = SampleBook(40)
    read(book, WORDS)
    assert book.judge() == []
    changed = list(WORDS[0])
    changed[17] = 9
    read(book, (changed, WORDS[1]), epoch=1)
    (finding,) = book.judge()
    assert (finding.rule, finding.where.sample) == ("DAT406", 17)
    assert book.judge() == []


@pytest.mark.parametrize("seed", range(8))
def test_samples_are_counted_alike_at_once_and_leaf_by_leaf(seed, monkeypatch):
    def counted(at_once):
        chosen = random.Random(seed)
        book = SampleBook(24)
        if not at_once:
            monkeypatch.setattr(book, "_read_at_once", lambda *_args, **_kwargs: False)
        told = []
        for number in range(40):
            indices = tuple(chosen.sample(range(24), 6))
            changed = chosen.random() < 0.1
            drew = chosen.random() < 0.1 * (seed % 3)
            words = [
                [0 if seed == 7 and not each % 5 else each + 1 + 100 * changed for each in indices],
                [1 + each % 3 for each in indices],
            ]
            samples = SampleWords.of(("0", "1"), words)
            book.read(batch(epoch=number // 8, indices=indices), samples, drew=drew)
            if number % 8 == 7:
                told.append([each.message for each in book.judge()])
        return told, book.num_compared, book.num_drawn, book.num_read, book.twins()

    assert counted(True) == counted(False)


def test_augmented_samples_are_not_compared():
    book = SampleBook(40)
    read(book, WORDS, drawn=True)
    read(book, ([each + 1 for each in WORDS[0]], WORDS[1]), epoch=1, drawn=True)
    assert book.judge() == []
    assert (book.num_compared, book.num_drawn) == (0, 40)


def test_samples_that_all_change_are_a_fault_where_something_was_seen_to_write_them():
    for written in ((), ("dataset.inputs",)):
        book = SampleBook(40)
        read(book, WORDS)
        read(book, ([each + 1 for each in WORDS[0]], WORDS[1]), epoch=1)
        found = book.judge(written=written)
        assert [each.rule for each in found] == ["DAT406"] * len(written)
        assert bool(book.unsettled) is not bool(written)


def test_labels_that_change_under_the_same_inputs():
    book = SampleBook(40)
    read(book, WORDS)
    read(book, (WORDS[0], WORDS[1][1:] + WORDS[1][:1]), epoch=1)
    (finding,) = book.judge()
    assert (finding.rule, finding.severity) == ("DAT413", Severity.WARNING)


def renewed(book, words, epoch, version):
    samples = SampleWords.of(("0", "1"), words)
    record = batch(epoch=epoch, indices=tuple(range(len(words[0]))))
    book.read(record, samples, drew=False, version=version)


@pytest.mark.parametrize(
    ("versions", "told"),
    [
        ([(0, 0), (0, 0)], [True]),  # Nothing was set.
        ([(0, 0), (1, 0), (2, 0)], [False, True]),  # It stays as it is, whatever is set.
        ([(0, 0), (1, 0), (1, 0)], [False, False]),  # It may well be the one that was set.
        ([(0, 0), (0, 1), (1, 2)], [False, False]),  # An array, which is another in some places.
    ],
)
def test_one_sample_that_changed_while_the_program_sets_things(versions, told):
    book = SampleBook(40)
    renewed(book, WORDS, 0, versions[0])
    changed = [*WORDS[0][:17], 9, *WORDS[0][18:]]
    for epoch, version in enumerate(versions[1:], 1):
        renewed(book, (changed, WORDS[1]), epoch, version)
        found = book.judge(set_last=("dataset.epoch",))
        assert [each.where.sample for each in found] == [17] * told[epoch - 1]
        assert told[epoch - 1] or "dataset.epoch" in book.unsettled


def test_a_sample_that_follows_what_is_set():
    book = SampleBook(40)
    for epoch in range(5):
        renewed(book, ([*WORDS[0][:17], 900 + epoch, *WORDS[0][18:]], WORDS[1]), epoch, (epoch, 0))
        assert book.judge() == []
    # Unless it is read that writes it.
    (finding,) = book.judge(written=("dataset.inputs",))
    assert finding.evidence["num_changed"] == 4


def test_labels_that_are_others_and_labels_that_lie_elsewhere():
    labels = [1 + (each * each) % 5 for each in range(40)]
    others = [1 + (each * each + each) % 7 for each in range(40)]
    for words, told in ((labels[::-1], True), (others, False)):
        book = SampleBook(40)
        renewed(book, (WORDS[0], labels), 0, (0, 0))
        renewed(book, (WORDS[0], words), 1, (0, 1))
        assert [each.rule for each in book.judge()] == ["DAT413"] * told
        assert [each.rule for each in book.judge(permuted=True)] == ["DAT413"] * (not told)


def test_what_is_let_go_of():
    book = SampleBook(40)
    read(book, WORDS)
    read(book, WORDS, epoch=1)
    assert book.size_bytes == 40 * 2 * 8
    book.let_go()
    assert (book.size_bytes, book.num_compared, book.judge(), book.twins()) == (0, 40, [], [])
    read(book, WORDS, epoch=2)
    assert book.size_bytes == 0


def test_twins_are_told_where_they_are_few():
    book = SampleBook(40)
    words = list(WORDS[0])
    labels = list(WORDS[1])
    words[11], labels[11] = words[12], labels[12]
    read(book, (words, labels))
    assert book.twins() == [(11, 12)]
    judge = Swallowed()
    (finding,) = judge.judge_twins(batch(), book.twins(), num_read=book.num_read)
    assert finding.rule == "DAT411"
    many = [(0, each) for each in range(1, 20)]
    assert Swallowed().judge_twins(batch(), many, num_read=40) == []


def bad(**keys):
    values = {"num_nan": 0, "num_positive": 0, "num_negative": 0, "num_elements": 64}
    return BadValues(path="0", rows=(1,), **{**values, **keys})


def test_values_that_are_not_finite():
    record = batch(indices=(8, 9))
    found = judge_values(bad(num_nan=2), **AT, finite_behind=False, record=record)
    assert (found.severity, found.where.sample) == (Severity.ERROR, 9)
    masked = judge_values(bad(num_nan=2), **AT, finite_behind=True, record=record)
    assert masked.severity is Severity.WARNING
    mask = bad(num_negative=2, is_mask=True)
    assert judge_values(mask, **AT, finite_behind=False, record=None) is None


def test_handles_that_were_read_through():
    facts = {"loader": "train", "epoch": 0, **AT}
    moved = [Handle(path="dataset.file", kind="file", moved=True)]
    (finding,) = judge_handles(moved, num_workers=2, **facts)
    assert finding.rule == "DAT410"
    assert judge_handles(moved, num_workers=1, **facts) == []
    still = [Handle(path="dataset.file", kind="file")]
    assert judge_handles(still, num_workers=2, **facts) == []
    database = [Handle(path="dataset.db", kind="sqlite3")]
    assert judge_handles(database, num_workers=2, **facts)[0].severity is Severity.WARNING


def tokens(lowest, highest, dtype="int64", **keys):
    return TokenInput(path="0", dtype=dtype, lowest=lowest, highest=highest, **keys)


def test_ids_outside_of_the_vocabulary():
    embeddings = {"embedding": 100, "position": 16}
    assert judge_failed(tokens(0, 99), embeddings, **AT) is None
    assert "id 100" in judge_failed(tokens(0, 100), embeddings, **AT).message
    assert "wrapped" in judge_failed(tokens(-25_000, 99), embeddings, **AT).message
    assert judge_failed(tokens(0, 100), {}, **AT) is None


def test_types_that_are_too_narrow():
    wide, narrow = {"embedding": 70_000}, {"ids": "uint16"}
    assert judge_width(tokens(0, 60_000), narrow, wide, **AT).severity is Severity.WARNING
    assert judge_width(tokens(0, 60_000), narrow, {"embedding": 65_536}, **AT) is None
    # The ids come from elsewhere: one is larger than the array could hold.
    assert judge_width(tokens(0, 66_000), narrow, wide, **AT) is None
    assert judge_width(tokens(0, 9), narrow | {"other": "int64"}, wide, **AT) is None
    negative = judge_width(tokens(-9, 300), {"ids": "int16"}, wide, **AT)
    assert negative.severity is Severity.ERROR


def test_every_second_id():
    second, first, both = (tokens(0, 9, gaps=frozenset(at)) for at in ((1,), (0,), (0, 1)))
    wide, narrow = {"ids": "int64"}, {"ids": "uint16"}
    assert judge_gaps(second, {}, **AT).rule == "DAT412"
    assert judge_gaps(tokens(0, 9), {}, **AT) is None
    for gaps in (second, first, both):
        assert judge_gaps(gaps, narrow, **AT).rule == "DAT412"
    # A blank between all others; rows that were cut anywhere have it now here, now there.
    assert judge_gaps(second, wide, **AT) is None
    assert judge_gaps(first, {}, **AT) is None
    assert "blank" in gaps_meant(first, {})
    assert judge_gaps(both, wide, **AT).rule == "DAT412"
    assert "64 bits were read as 32" in judge_gaps(second, {"ids": "int32"}, **AT).message


def test_where_every_second_id_is_zero():
    assert not gaps_in([[5, 6, 7, 8, 0, 0, 0, 0]])
    assert not gaps_in([[0] * 16])
    assert not gaps_in([[9, 0, 7, 0, 8, 0, 4, 0], [9, 2, 7, 1, 8, 4, 4, 5]])
    assert gaps_in([[9, 1, 700, 0, 30, 1, 4, 0]], high_words=1) == {1}
    assert gaps_in([[0, 9, 0, 7, 0, 8, 0, 4, 0]]) == {0}


def test_maps_that_contradict():
    first = LabelMap(owner="train", attribute="class_to_idx", numbers={"cat": 0, "dog": 1})
    fewer = LabelMap(owner="val", attribute="class_to_idx", numbers={"dog": 1})
    other = LabelMap(owner="val", attribute="class_to_idx", numbers={"dog": 0})
    assert compare_maps(first, fewer, **AT) is None
    assert compare_maps(first, other, **AT).evidence["labels"] == {"dog": [1, 0]}


def test_a_pass_more_than_usual():
    judge = OrderMoved()
    assert judge.judge_pause("train", 1, {"val": 1}, **AT) == []
    assert judge.judge_pause("train", 2, {}, **AT) == []  # Validated now and then.
    assert judge.judge_pause("train", 3, {"val": 1}, **AT) == []
    (finding,) = judge.judge_pause("train", 4, {"val": 2}, **AT)
    assert (finding.evidence["passes"], finding.evidence["usual"]) == (2, 1)


def test_passes_that_move_nothing():
    judge = OrderMoved()
    for epoch in range(4):  # They alternate the same way, by one generator.
        assert judge.judge_pause("train", epoch, {"val": 1}, generator=True, **AT) == []
    # One more, and then the stream is seeded: the order hangs on the seed alone.
    assert judge.judge_pause("train", 4, {"val": 2}, generator=True, seeded=True, **AT) == []
    (finding,) = judge.judge_pause("train", 5, {"val": 3}, generator=True, **AT)
    assert (finding.rule, finding.evidence["kind"]) == ("DAT415", "generator")
    assert "both draw from one generator" in finding.message

"""Large batches between delivery and use: parts of each are read, and all bytes of some."""

from __future__ import annotations

import pytest
import torch

from everybit.core.contents import BatchFacts
from everybit.core.samples import SampleRecord
from everybit.guard.contents.delivered import EVERY, Delivered
from everybit.probe.contents.blocks import block_word, blocks_of
from everybit.probe.contents.words import bytes_of, words_of

ROWS = 64


def make(number):
    generator = torch.Generator().manual_seed(number)
    return torch.rand(ROWS, 8192, generator=generator), torch.randint(9, (ROWS,))


def facts_of(batch, *, whole):
    leaves = [("0", batch[0]), ("1", batch[1])]
    words = words_of(leaves if whole else leaves[1:])
    return BatchFacts(leaves=tuple(words), blocks=tuple(blocks_of(leaves)))


def deliver(delivered, number, batch, *, worker=0, whole=False, facts=None):
    record = SampleRecord(loader="train", epoch=0, batch=number, step=number, worker=worker)
    return delivered.deliver(record, batch, facts or facts_of(batch, whole=whole))


def write_past_torch(tensor, values):
    tensor.numpy()[...] = values.numpy()


@pytest.mark.parametrize("worker", [-1, 0])
@pytest.mark.parametrize("number", [0, 1, 7, EVERY])
def test_one_that_is_overwritten_is_found_whichever_it_is(number, worker):
    delivered = Delivered()
    batch = make(1)
    assert deliver(delivered, number, batch, worker=worker) == []
    write_past_torch(batch[0], make(2)[0])
    (finding,) = delivered.use((batch[0],), {}, number)
    assert (finding.rule, finding.evidence["kind"]) == ("DAT405", "before use")
    # It is told once.
    assert delivered.use((batch[0],), {}, number) == []


def test_it_is_said_whose_bytes_lie_there():
    delivered = Delivered()
    first, second = make(1), make(2)
    deliver(delivered, 5, first)
    deliver(delivered, 6, second)
    write_past_torch(first[0], second[0])
    (finding,) = delivered.use((first[0],), {}, 5)
    assert finding.evidence["became_batch"] == 6


@pytest.mark.parametrize("number", [0, 5])
def test_one_that_stays_as_it_is_or_is_written_on_purpose_is_no_fault(number):
    delivered = Delivered()
    batch, other = make(1), make(2)
    deliver(delivered, number, batch)
    assert delivered.use((batch[0],), {}, number) == []
    batch[0].mul_(2)
    assert delivered.use((batch[0],), {}, number) == []
    assert delivered.num_rewritten == 1
    deliver(delivered, number + 1, other)
    assert delivered.use((other[0].view(ROWS, 64, 128),), {}, number + 1) == []


def test_one_value_that_changed_is_found_where_all_bytes_are_read():
    found = []
    for number, whole in ((0, True), (5, False), (EVERY, True), (EVERY + 1, False)):
        delivered = Delivered()
        batch = make(1)
        deliver(delivered, number, batch, whole=whole)
        batch[0].numpy()[0, 0] += 1
        found.append(len(delivered.use((batch[0],), {}, number)))
        assert delivered.num_in_part == (not whole)
    assert found == [1, 0, 1, 0]


def test_one_that_changed_on_the_way_is_told_as_it_arrives():
    for number in (0, 6):
        delivered = Delivered()
        batch = make(1)
        facts = facts_of(batch, whole=not number)
        write_past_torch(batch[0], make(2)[0])
        (finding,) = deliver(delivered, number, batch, facts=facts)
        assert finding.evidence["kind"] == "on the way"
        assert finding.evidence["leaves"] == ["0"]
        assert delivered.use((batch[0],), {}, number) == []


def test_where_no_model_gets_them_as_they_are_all_bytes_are_read_as_they_arrive():
    for used in (False, True):
        delivered = Delivered()
        first, batch = make(0), make(1)
        deliver(delivered, EVERY - 1, first)
        if used:
            delivered.use((first[0],), {}, 0)
        facts = facts_of(batch, whole=True)
        batch[0].numpy()[0, 0] += 1
        assert len(deliver(delivered, EVERY, batch, facts=facts)) == (not used)
        # It is found all the same: when the model gets it.
        assert len(delivered.use((batch[0],), {}, 1)) == used


def test_the_second_batch_stands_for_the_first_where_no_model_gets_them():
    delivered = Delivered()
    found = []
    for number in range(4):
        batch = make(number)
        facts = facts_of(batch, whole=True)
        batch[0].numpy()[0, 0] += 1
        found.append(len(deliver(delivered, number, batch, facts=facts)))
    assert found == [0, 1, 0, 0]


def test_a_batch_written_over_one_that_was_never_used():
    delivered = Delivered()
    held = make(1)
    deliver(delivered, 5, held)
    write_past_torch(held[0], make(2)[0])
    deliver(delivered, 6, (held[0], torch.zeros(ROWS)))
    assert delivered.use((held[0],), {}, 5) == []
    (finding,) = delivered.use((held[0],), {}, 6)
    assert finding.evidence["kind"] == "in its place"


def test_sparse_ones_are_passed_over():
    sparse = torch.eye(600).to_sparse()
    assert bytes_of([("0", sparse), ("1", torch.zeros(2))]) == 8
    assert block_word(sparse) == 0
    delivered = Delivered()
    assert deliver(delivered, 0, (sparse, torch.zeros(2)), facts=BatchFacts()) == []
    assert delivered.use((sparse,), {}, 0) == []

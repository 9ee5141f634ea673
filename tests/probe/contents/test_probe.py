"""What is seen while a batch is made, and that nothing stays behind."""

from __future__ import annotations

import dataclasses
import functools
import gc
import pickle

import numpy as np
import torch
from torch.utils.data import ConcatDataset, Dataset, Subset, default_collate

from everybit.probe.contents import ContentsProbe, survey
from everybit.probe.contents.labels import shift_of
from everybit.probe.contents.pairing import compare_rows
from everybit.probe.contents.words import folded, leaf_words, word_of_leaf
from everybit.probe.samples import Envelope, Facts, opened


class Numbers(Dataset):
    def __init__(self):
        self.values = torch.arange(24.0).view(8, 3)

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return self.values[index], index % 2


class Nested(Numbers):
    def __getitem__(self, index):
        return self[index + 1] if index == 2 else super().__getitem__(index)


def make(dataset, indices=range(4), collate=default_collate):
    probe = ContentsProbe(dataset)
    probe.before()
    samples = [dataset[index] for index in indices]
    probe.fetched(samples)
    return probe.collated(collate(samples))


def test_a_plain_batch():
    facts = make(Numbers())
    assert not facts.drew
    assert facts.samples.paths == ("0", "1")
    assert len(set(facts.samples.words[0])) == 4
    assert len(set(facts.samples.words[1])) == 2
    assert (facts.stand_ins, facts.absent, facts.pairing) == ((), (), None)
    assert pickle.loads(pickle.dumps(facts)) == facts


def test_a_stand_in_is_seen_through_subsets_and_the_class_is_left_as_it_was():
    before = Nested.__dict__["__getitem__"]
    dataset = Subset(Nested(), list(range(8)))
    assert make(dataset).stand_ins == ((2, 3),)
    gc.collect()
    assert Nested.__dict__["__getitem__"] is before


def test_an_inherited_getitem_is_left_where_it_was():
    class Heir(Numbers):
        pass

    make(Heir())
    gc.collect()
    assert "__getitem__" not in Heir.__dict__


def test_rows_that_went_astray():
    samples = [(torch.full((3,), float(row)), row) for row in range(6)]
    inputs, labels = default_collate(samples)
    assert compare_rows(samples, (inputs, labels)) is None
    assert compare_rows(samples, (inputs.flip(0), labels.flip(0))) is None
    rolled = compare_rows(samples, (inputs, labels.roll(1)))
    assert (rolled.steady, rolled.astray, rolled.shift) == ("0", "1", 5)
    swapped = compare_rows(samples, (inputs, labels[torch.tensor([1, 0, 2, 3, 4, 5])]))
    assert (swapped.shift, swapped.rows) == (0, (0, 1))
    # Made anew: nothing can be said.
    assert compare_rows(samples, (inputs, labels * 2)) is None
    assert compare_rows(samples, (inputs * 2, labels.roll(1))) is None


def test_rows_are_compared_where_collate_may_have_moved_them():
    def swapped(samples):
        inputs, labels = default_collate(samples)
        return inputs, labels.flip(0)

    for keeps_rows in (False, True):
        probe = ContentsProbe(Numbers())
        probe.before()
        samples = [(torch.full((99,), float(row)), row) for row in range(6)]
        probe.fetched(samples, keeps_rows=keeps_rows)
        facts = probe.collated(swapped(samples))
        assert (facts.pairing is None) is keeps_rows  # Torch's own moves none.


def test_labels_off_by_one():
    labels = [3, 1, 4, 1, 5, 9, 2, 6]
    asked = [5, 0, 3, 6]
    assert shift_of([labels[index] for index in asked], asked, labels) == 0
    assert shift_of([labels[index + 1] for index in asked], asked, labels) == 1
    assert shift_of([float(labels[index - 1]) for index in asked], asked, labels) == -1
    assert shift_of([8.0, 8.0, 7.0, 7.0], asked, labels) == 0


def test_a_survey_looks_into_transforms_and_datasets_within():
    class Transform:
        def __init__(self):
            self.rng = np.random.default_rng(0)

        def __call__(self, value):
            return value

    inner = Numbers()
    inner.transform = functools.partial(Transform())
    inner.class_to_idx = {"cat": 0, "dog": 1}
    inner.sizes = {"cat": 3}
    found = survey(ConcatDataset([Subset(inner, [0, 1]), Numbers()]))
    assert [path.rpartition(".")[2] for path in found.generators] == ["rng"]
    assert [path.rpartition(".")[2] for path in found.maps] == ["class_to_idx"]
    assert len(found.datasets) == 4
    assert {path.rpartition(".")[2] for path in found.arrays} == {"values"}


def test_words():
    values = torch.arange(6.0).view(2, 3)
    assert word_of_leaf(values) == word_of_leaf(values.t().contiguous().t())
    assert word_of_leaf(values) != word_of_leaf(values.view(3, 2))
    assert word_of_leaf(values.bfloat16()) != word_of_leaf(values)
    assert word_of_leaf(values.numpy()) != 0
    assert word_of_leaf(object()) == 0
    assert folded(leaf_words({"a": 1})) != folded(leaf_words({"b": 1}))
    assert folded(leaf_words(object())) == 0


def test_a_dataset_that_cannot_be_looked_at_gives_its_batches():
    class Odd:
        @property
        def __dict__(self):
            raise RuntimeError("no")

        def __getitem__(self, index):
            return torch.zeros(2)

    assert make(Odd()) is None or make(Odd()).drew is False


def test_a_surrounded_method_is_copied_and_pickled_as_the_program_wrote_it():
    written = Numbers.__dict__["__getitem__"]
    probe = ContentsProbe(Numbers())
    method = Numbers.__dict__["__getitem__"]
    assert method is not written
    assert method.__reduce__()[1] == (written,)
    assert Numbers.__getitem__(Numbers(), 1)[1] == 1
    probe.close()
    assert Numbers.__dict__["__getitem__"] is written


def test_the_short_way_to_a_word_is_the_long_one():
    for values in (torch.arange(6.0).view(2, 3), torch.tensor(3), torch.zeros(0, 2)):
        like = values.clone().requires_grad_() if values.is_floating_point() else values.clone()
        assert word_of_leaf(like) == word_of_leaf(values) != 0
    complex_ = torch.arange(4.0).view(2, 2) * 1j
    assert word_of_leaf(complex_.conj()) == word_of_leaf(complex_.conj().resolve_conj())


def test_a_tensor_can_be_resized_behind_its_word():
    values = torch.arange(6.0)
    assert word_of_leaf(values)
    values.resize_(20)
    assert values.numel() == 20


def test_what_is_sent_with_a_batch_arrives_as_it_was():
    contents = make(Numbers())
    for seen in (contents, dataclasses.replace(contents, samples=None), None):
        facts = Facts(digest=3, samples=(1, 2), stream_word=5, worker=1, contents=seen)
        sent = pickle.loads(pickle.dumps(Envelope({"a": 1}, facts)))
        assert opened(sent) == ({"a": 1}, facts)

"""One word of a sample or batch, by whichever way it is come to."""

from __future__ import annotations

import dataclasses
from collections import UserDict

import numpy as np
import pytest
import torch
from torch.utils.data import default_collate
from torch.utils.data._utils import collate as torch_collate

from everybit.probe.contents.rows import keeps_rows, pairs_rows, sample_words
from everybit.probe.contents.words import (
    folded,
    leaf_words,
    leaves_of,
    value_word,
    word_of_leaf,
)
from everybit.probe.digest import flatten

Pair = dataclasses.make_dataclass("Pair", ["inputs", "label"])

SAMPLES = {
    "tuples": [(torch.full((3,), float(i)), i) for i in range(5)],
    "dictionaries": [{"ids": torch.arange(i + 1), "text": "a" * i} for i in range(5)],
    "lists": [[np.arange(i), 0.5 * i] for i in range(5)],
    "tensors": [torch.full((2,), i) for i in range(5)],
    "numbers": [3, 4, 5],
    "with what is nested": [(torch.ones(2), {"a": i, "b": [i]}) for i in range(3)],
    "of two lengths": [(torch.ones(2), 1), (torch.ones(2),)],
    "of two orders of keys": [{"a": 1, "b": 2}, {"b": 2, "a": 1}],
    "data classes": [Pair(torch.ones(2), i) for i in range(3)],
    "nothing": [],
    "empty": [(), ()],
    "none": [None, torch.ones(1)],
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_samples_leaf_by_leaf_have_the_words_that_they_have_one_by_one(kind):
    samples = SAMPLES[kind]
    whole, words = sample_words(samples)
    assert whole == tuple(value_word(each) for each in samples)
    paths = {tuple(path for path, _ in leaf_words(each)) for each in samples}
    if len(paths) == 1 and paths != {()}:
        assert words is not None
        rows = list(zip(*words.words, strict=True))
        for sample, row in zip(samples, rows, strict=True):
            assert leaf_words(sample) == list(zip(words.paths, row, strict=True))
    else:
        assert words is None


@pytest.mark.parametrize("kind", SAMPLES)
def test_the_leaves_are_those_of_flatten(kind):
    for value in (SAMPLES[kind], *SAMPLES[kind]):
        assert [path for path, _ in leaves_of(value)] == [path for path, _ in flatten(value)]


def test_what_differs_has_another_word():
    values = [
        {"a": 1},
        {"b": 1},
        {"a": 2},
        {"a": True},
        {"a": 1.0},
        {"a": "1"},
        {"a": b"1"},
        {"a": torch.tensor(1)},
        {"a": torch.tensor([1])},
        {"a": torch.tensor([1], dtype=torch.int32)},
        {"a": np.array([1])},
        Pair(1, 2),
        Pair(2, 1),
        Pair(torch.ones(1), [1]),
        UserDict(a=3),
    ]
    words = [value_word(each) for each in values]
    assert 0 not in words
    assert len(set(words)) == len(words)
    assert words == [value_word(each) for each in values]


def test_what_cannot_be_read_has_none():
    for value in (
        object(),
        [object()],
        [],
        torch.ones(2).to_sparse(),
        torch.ones(2, device="meta"),
    ):
        assert value_word(value) == 0
    assert folded([]) == 0


def test_what_holds_itself_is_looked_into_so_deep():
    class Held:
        pass

    held = Held()
    held.data = {"inner": held}
    assert value_word(held) == 0
    pair = Pair(1, None)
    pair.label = pair
    assert value_word(pair) != 0


def test_text_of_any_kind_has_a_word():
    assert word_of_leaf("a\udc80") != word_of_leaf("a\udc81") != 0
    assert word_of_leaf(b"\xff" * 100) == word_of_leaf(bytearray(b"\xff" * 100)) != 0


def test_numbers_as_large_as_can_be():
    assert len({word_of_leaf(each) for each in (2**64, -(2**64), 0, -1)}) == 4


COLLATED = {
    **{kind: SAMPLES[kind] for kind in ("tuples", "lists", "tensors", "numbers")},
    "dictionaries": [{"ids": torch.arange(4) + i, "y": i, "text": str(i)} for i in range(5)],
    "dtypes mixed": [(torch.ones(2, dtype=each), 1) for each in (torch.float32, torch.float64)],
    "scalars": [(torch.tensor(float(i)), torch.tensor(i)) for i in range(4)],
    "strided": [(torch.arange(12.0).view(3, 4).t() + i,) for i in range(3)],
    "conjugated": [(torch.tensor([1j, 2.0]).conj() * i,) for i in range(1, 3)],
    "empty": [(torch.zeros(0), i) for i in range(3)],
    "packed": [(torch.ones(2).bfloat16() * i, i > 1) for i in range(3)],
}


@pytest.mark.parametrize("kind", COLLATED)
def test_rows_of_the_batch_have_the_words_of_its_samples(kind):
    samples = COLLATED[kind]
    if kind == "lists":
        samples = [[each, 0.5] for each in (np.arange(3), np.arange(3) + 1)]
    assert sample_words(samples, default_collate(samples)) == sample_words(samples)


def test_only_torch_s_own_collate_is_known_to_keep_rows(monkeypatch):
    assert keeps_rows(default_collate)
    assert not keeps_rows(lambda samples: default_collate(samples))
    monkeypatch.setitem(torch_collate.default_collate_fn_map, torch.Tensor, lambda *_, **__: None)
    assert not keeps_rows(default_collate)


def test_large_rows_are_read_once_for_themselves_and_for_the_batch():
    samples = [(torch.full((1 << 14,), float(i)), i) for i in range(4)]
    batch = default_collate(samples)
    known: dict[str, int] = {}
    assert sample_words(samples, batch, known) == sample_words(samples)
    assert known == {"0": word_of_leaf(batch[0])}


def test_a_program_s_own_way_for_its_own_type_may_move_rows(monkeypatch):
    assert pairs_rows()
    monkeypatch.setitem(torch_collate.default_collate_fn_map, Pair, lambda *_, **__: None)
    assert keeps_rows(default_collate)
    assert not pairs_rows()

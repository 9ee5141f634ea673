"""An object is known again without being kept, and a new one at its place is another."""

from __future__ import annotations

import gc

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import everybit
from everybit.guard.same_object import SameObject
from everybit.guard.samples.names import Entries


def test_one_that_is_gone_is_no_other():
    first = TensorDataset(torch.zeros(4))
    known = SameObject(first)
    assert known.is_same(first)
    assert not known.is_gone
    del first
    assert known.is_gone
    assert not known.is_same(None)


def test_a_list_in_the_place_of_another():
    first = [torch.zeros(1), torch.zeros(1)]
    known = SameObject(first)
    assert known.is_same(first)
    first[:] = [torch.zeros(1), torch.zeros(1)]  # As where the memory is used again.
    assert not known.is_same(first)


def test_a_data_set_that_lies_where_another_lay_is_not_taken_for_it():
    entries = Entries()
    first = TensorDataset(torch.zeros(8))
    loader, place = DataLoader(first), id(first)
    assert entries.of(loader).name == "TensorDataset"
    del first, loader
    gc.collect()
    tried = [TensorDataset(torch.zeros(8)) for _ in range(200)]
    again = [each for each in tried if id(each) == place]
    if not again:
        pytest.skip("the place was given to something else")
    assert entries.of(DataLoader(again[0])).name == "TensorDataset#1"


def test_a_data_set_goes_on_under_its_name(tmp_path):
    kept, listed = TensorDataset(torch.zeros(8)), [torch.zeros(1)] * 8
    with everybit.Guard(torch.nn.Linear(1, 1), run=tmp_path / "run") as guard:
        for _ in range(2):
            list(DataLoader(kept, 4))
            list(DataLoader(listed, 4))
            list(DataLoader(TensorDataset(torch.zeros(8)), 4))
    assert guard.findings == ()
    names = {each.loader for each in everybit.open_run(tmp_path / "run").samples()}
    assert names == {"TensorDataset", "list", "TensorDataset#1", "TensorDataset#2"}

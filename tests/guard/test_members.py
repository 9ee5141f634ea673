"""Names of optimizers that come and go: no two living ones share a name."""

from __future__ import annotations

import gc

import torch

from everybit.guard.members import Members


def test_an_optimizer_that_comes_after_another_went_takes_no_living_name() -> None:
    members = Members(lambda _: None)
    model = torch.nn.Linear(2, 2)
    first, second = (torch.optim.Adam(model.parameters()) for _ in range(2))
    members.add_optimizer(first)
    members.add_optimizer(second)
    del first
    gc.collect()
    third, fourth = (torch.optim.Adam(model.parameters()) for _ in range(2))
    members.add_optimizer(third)
    members.add_optimizer(fourth)
    names = [name for _, name in members.optimizers]
    assert len(set(names)) == len(names) == 3
    assert members.name_of(second) == "Adam#1"

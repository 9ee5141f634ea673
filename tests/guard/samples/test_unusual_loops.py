"""Loops that go over their loaders in ways of their own, and in which nothing is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.utils.data import (
    DataLoader,
    Dataset,
    DistributedSampler,
    RandomSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

import everybit
from everybit.guard.samples.names import MAX_GONE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from everybit.core.finding import Finding


def data(length: int = 96) -> Any:
    return TensorDataset(torch.arange(float(length))[:, None])


@pytest.fixture
def trained(tmp_path: Path) -> Callable[[Callable[..., None]], list[Finding]]:
    """Run a loop under a Guard; it gets the model and a function that makes an update."""

    def run(loop: Callable[..., None]) -> list[Finding]:
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)

        def update(inputs: Any) -> None:
            model(inputs).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

        guard = everybit.Guard(model, optimizer, run=tmp_path / "run", on_finding="record")
        with guard:
            loop(model, update)
        assert not guard._fence.fault
        return list(guard.findings)

    return run


@pytest.mark.parametrize("set_epoch", ["before", "between", "never"])
def test_a_look_at_the_first_batch_is_no_epoch(trained: Any, set_epoch: str) -> None:
    def loop(model: Any, update: Any) -> None:
        sampler = DistributedSampler(data(), 2, 0)
        loader = DataLoader(data(), 16, sampler=sampler)
        for epoch in range(3):
            if set_epoch == "before":
                sampler.set_epoch(epoch)
            next(iter(loader))
            if set_epoch == "between":
                sampler.set_epoch(epoch)
            for (inputs,) in loader:
                update(inputs)

    found = [finding.rule for finding in trained(loop)]
    assert found == (["DAT404"] if set_epoch == "never" else [])


@pytest.mark.parametrize("is_set", [True, False])
def test_an_epoch_may_be_evaluated_in_its_own_order(trained: Any, is_set: bool) -> None:
    def loop(model: Any, update: Any) -> None:
        sampler = DistributedSampler(data(), 2, 0)
        loader = DataLoader(data(), 16, sampler=sampler)
        for epoch in range(3):
            sampler.set_epoch(epoch if is_set else 0)
            for (inputs,) in loader:
                update(inputs)
            with torch.no_grad():
                for (inputs,) in loader:
                    model(inputs)

    found = trained(loop)
    assert [finding.rule for finding in found] == ([] if is_set else ["DAT404"])
    assert is_set or "epoch 2 in the order of epoch 0" in found[0].message


@pytest.mark.parametrize("replacement", [True, False])
def test_a_sampler_that_draws_again_while_others_draw(trained: Any, replacement: bool) -> None:
    def loop(model: Any, update: Any) -> None:
        generator = torch.Generator().manual_seed(1)
        sampler = RandomSampler(
            data(24), replacement=replacement, num_samples=100, generator=generator
        )
        for (inputs,) in DataLoader(data(24), 8, sampler=sampler):
            update(inputs * torch.rand((), generator=generator))

    assert trained(loop) == []


def test_weights_may_be_written_while_workers_begin(trained: Any) -> None:
    def loop(model: Any, update: Any) -> None:
        sampler = WeightedRandomSampler([1.0] * 96, 96)
        loader = DataLoader(data(), 16, sampler=sampler, num_workers=1)
        iterator = iter(loader)
        sampler.weights *= torch.linspace(0.01, 1, 96)
        for (inputs,) in iterator:
            update(inputs)

    assert trained(loop) == []


class Growing(Dataset[Any]):
    limit = 48

    def __len__(self) -> int:
        return self.limit

    def __getitem__(self, index: int) -> Any:
        return torch.full((1,), float(index))


def test_workers_that_are_kept_and_a_length_that_changes(trained: Any) -> None:
    def passes(loader: Any) -> Iterator[None]:
        for _ in range(3):
            yield
            for _ in loader:
                pass

    def loop(model: Any, update: Any) -> None:
        kept: Any = {"num_workers": 1, "persistent_workers": True}
        samples = Growing()
        for number, _ in enumerate(passes(DataLoader(samples, 16, shuffle=True, **kept))):
            samples.limit = (48, 32, 40)[number]
        sampler = SubsetRandomSampler(list(range(48)))
        for number, _ in enumerate(passes(DataLoader(data(), 16, sampler=sampler, **kept))):
            sampler.indices = [*range(48), *[0, 1, 2] * number]

    assert trained(loop) == []


def test_memory_of_a_batch_that_was_let_go_of_may_be_used_again(trained: Any) -> None:
    def loop(model: Any, update: Any) -> None:
        for number, (inputs,) in enumerate(DataLoader(data(), 16, shuffle=True)):
            if number % 3:
                update(inputs)
                update(inputs)

    assert trained(loop) == []


def test_data_sets_that_are_made_anew_leave_little_behind(tmp_path: Path) -> None:
    with everybit.Guard(torch.nn.Linear(1, 1), run=tmp_path / "run") as guard:
        for _ in range(MAX_GONE + 8):
            for _ in DataLoader(data(8), 8, shuffle=True):
                pass
        held = guard.state_dict()["loaders"]
    assert guard.findings == ()
    assert MAX_GONE <= len(held) <= MAX_GONE + 1
    assert not any(judge.seen for judge in guard._data._check._repeats.values())

"""What the Guard says of loaders: the fault, and the nearest harmless thing."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.guard.samples.loops import Noisy, Stream, batches
from torch.utils.data import (
    DataLoader,
    Dataset,
    DistributedSampler,
    RandomSampler,
    SubsetRandomSampler,
    TensorDataset,
)

import everybit
from everybit.core.finding import Severity

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.core.finding import Finding


def data(length: int = 24) -> Any:
    return TensorDataset(torch.arange(float(length)))


def judged(loader: Any, run: Path, *, epochs: int = 2, set_epoch: bool = False) -> list[Finding]:
    with everybit.Guard(torch.nn.Linear(1, 1), run=run, on_finding="record") as guard:
        for epoch in range(epochs):
            if set_epoch:
                loader.sampler.set_epoch(epoch)
            batches(loader, 1)
    assert not guard._fence.fault
    return list(guard.findings)


def rules(findings: list[Finding]) -> list[str]:
    return [finding.rule for finding in findings]


def damaged(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Have one permutation that a sampler draws be changed on its way."""
    original = torch.randperm
    calls = []

    def changed(count: int, **options: Any) -> Any:
        order = original(count, **options)
        calls.append(order)
        # The second draw of an epoch is that of the sampler itself: the first is derived for it.
        return change(order) if len(calls) % 2 == 0 else order

    monkeypatch.setattr(torch, "randperm", changed)


def test_a_sample_in_anothers_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def repeat(order: Any) -> Any:
        order[9] = order[1]
        return order

    damaged(monkeypatch, repeat)
    (finding,) = judged(DataLoader(data(), 4, shuffle=True), tmp_path / "run", epochs=1)
    assert finding.rule == "DAT401"
    assert finding.evidence["batch"] == 2
    assert finding.where.sample == finding.evidence["samples"][0]


def test_two_samples_exchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def swap(order: Any) -> Any:
        return order[torch.tensor([0, 1, 2, 3, 7, 5, 6, 4, *range(8, 24)])]

    damaged(monkeypatch, swap)
    (finding,) = judged(DataLoader(data(), 4, shuffle=True), tmp_path / "run", epochs=1)
    assert finding.rule == "DAT404"
    assert (finding.evidence["batch"], finding.evidence["place"]) == (1, 0)


class Shrinks(RandomSampler):
    """A sampler of the program's own: it promises nothing."""

    def __iter__(self) -> Any:
        yield from [*list(super().__iter__())[:20], 0, 0]


@pytest.mark.parametrize("drop_last", [False, True])
def test_what_is_no_repeat_and_no_miss(drop_last: bool, tmp_path: Path) -> None:
    harmless = [
        DataLoader(data(22), 4, shuffle=True, drop_last=drop_last),
        DataLoader(data(), 4, sampler=RandomSampler(data(), replacement=True)),
        DataLoader(data(), 4, sampler=RandomSampler(data(), num_samples=30)),
        DataLoader(data(), 4, sampler=Shrinks(data())),
        DataLoader(data(22), 4, sampler=DistributedSampler(data(22), 4, 3, drop_last=drop_last)),
        DataLoader(data(), batch_sampler=[[1, 1], [2]]),
    ]
    for number, loader in enumerate(harmless):
        has_epoch = hasattr(loader.sampler, "set_epoch")
        assert judged(loader, tmp_path / str(number), set_epoch=has_epoch) == []


def test_a_pass_that_is_broken_off_misses_nothing(tmp_path: Path) -> None:
    loader = DataLoader(data(), 4, shuffle=True)
    with everybit.Guard(torch.nn.Linear(1, 1), run=tmp_path / "run") as guard:
        for number, _ in enumerate(loader):
            if number == 2:
                break
        batches(loader, 1)
    assert guard.findings == ()
    assert [each.epoch for each in everybit.open_run(tmp_path / "run").samples()] == [0] * 3 + [
        1
    ] * 6


class Fails(Dataset[Any]):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Any:
        if index == 5:
            raise ValueError("cannot be read")
        return torch.tensor(float(index))


@pytest.mark.parametrize("workers", [0, 2])
def test_samples_lost_to_an_error_that_is_swallowed(workers: int, tmp_path: Path) -> None:
    loader = DataLoader(Fails(), 2, num_workers=workers)
    with everybit.Guard(torch.nn.Linear(1, 1), run=tmp_path / "r", on_finding="record") as guard:
        iterator = iter(loader)
        while True:
            try:
                next(iterator)
            except ValueError:
                continue
            except StopIteration:
                break
    (finding,) = guard.findings
    assert finding.rule == "DAT402"
    assert finding.evidence["samples"] == [4, 5]
    assert (finding.evidence["num_missing"], finding.evidence["num_failed"]) == (2, 2)


def test_set_epoch_forgotten(tmp_path: Path) -> None:
    sampler = DistributedSampler(data(64), num_replicas=2, rank=0)
    loader = DataLoader(data(64), 4, sampler=sampler)
    (finding,) = judged(loader, tmp_path / "run", epochs=3)
    assert finding.rule == "DAT404"
    assert finding.severity is Severity.WARNING
    assert "`set_epoch` was never called" in finding.message
    assert judged(loader, tmp_path / "other", epochs=3, set_epoch=True) == []
    plain = DistributedSampler(data(64), num_replicas=2, rank=0, shuffle=False)
    assert judged(DataLoader(data(64), 4, sampler=plain), tmp_path / "plain") == []


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("rolls", [True, False])
def test_indices_that_are_written_while_they_are_gone_through(
    workers: int, rolls: bool, tmp_path: Path
) -> None:
    sampler = SubsetRandomSampler(list(range(24)))
    loader = DataLoader(data(48), 4, sampler=sampler, num_workers=workers)
    with everybit.Guard(torch.nn.Linear(1, 1), run=tmp_path / "r", on_finding="record") as guard:
        for _ in range(2):
            for number, _ in enumerate(loader):
                if number == 1:  # Other samples, or some of them again.
                    sampler.indices[:] = [(each + (1 if rolls else 24)) % 48 for each in range(24)]
    assert guard.findings == ()
    assert not guard._fence.fault


@pytest.mark.parametrize("workers", [0, 2])
def test_indices_that_come_in_another_order(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = SubsetRandomSampler.__iter__
    reads = []

    def exchanged(sampler: Any) -> Any:
        keys = list(original(sampler))
        reads.append(keys)
        if len(reads) == 1:  # That of the sampler, or the one that is derived for it.
            keys[9], keys[10] = keys[10], keys[9]
        return iter(keys)

    monkeypatch.setattr(SubsetRandomSampler, "__iter__", exchanged)
    sampler = SubsetRandomSampler(list(range(24)))
    loader = DataLoader(data(), 4, sampler=sampler, num_workers=workers)
    (finding,) = judged(loader, tmp_path / "run", epochs=1)
    assert (finding.rule, finding.evidence["batch"]) == ("DAT404", 2)


def test_loaders_that_are_made_anew_go_on_under_one_name(tmp_path: Path) -> None:
    samples = data()
    with everybit.Guard(torch.nn.Linear(1, 1), run=tmp_path / "r", on_finding="record") as guard:
        for _ in range(3):
            for _ in DataLoader(samples, 6, shuffle=True):
                pass
    assert guard.findings == ()
    records = list(everybit.open_run(tmp_path / "r").samples())
    assert {each.loader for each in records} == {"TensorDataset"}
    assert [each.epoch for each in records] == [0] * 4 + [1] * 4 + [2] * 4


def test_a_generator_that_is_seeded_anew(tmp_path: Path) -> None:
    generator = torch.Generator()
    loader = DataLoader(data(), 4, shuffle=True, generator=generator)
    with everybit.Guard(torch.nn.Linear(1, 1), run=tmp_path / "r", on_finding="record") as guard:
        for _ in range(2):
            generator.manual_seed(3)
            batches(loader, 1)
    assert rules(list(guard.findings)) == ["DAT404"]
    assert judged(DataLoader(data(), 4, shuffle=True), tmp_path / "clean") == []


def test_workers_that_all_read_everything(tmp_path: Path) -> None:
    loader = DataLoader(Stream(64, shared=False), 4, num_workers=2)
    (finding,) = judged(loader, tmp_path / "run", epochs=1)
    assert finding.rule == "DAT401"
    assert finding.evidence["workers"] == [0, 1]
    assert judged(DataLoader(Stream(64), 4, num_workers=2), tmp_path / "shared") == []
    assert judged(DataLoader(Stream(64, shared=False), 4, num_workers=1), tmp_path / "one") == []


class Dies(Noisy):
    at, after = 9, 0.0

    def __getitem__(self, index: int) -> Any:
        if index == self.at:
            time.sleep(self.after)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


def test_a_worker_that_is_killed(tmp_path: Path) -> None:
    guard = everybit.Guard(torch.nn.Linear(1, 1), run=tmp_path / "r", on_finding="record")
    with pytest.raises(RuntimeError, match="worker"), guard:
        batches(DataLoader(Dies(), 4, num_workers=2), 1)
    (finding,) = guard.findings
    assert finding.rule == "DAT409"
    assert finding.where.worker == 0
    assert "SIGKILL" in finding.message


@pytest.mark.parametrize("held", [True, False])
def test_a_worker_that_is_killed_while_the_loop_is_elsewhere(held: bool, tmp_path: Path) -> None:
    held_on: list[Any] = []

    def loop() -> None:
        samples = Dies()
        samples.after = 0.5  # The first batch has come by then.
        iterator = iter(DataLoader(samples, 4, num_workers=2))
        held_on.extend([iterator] * held)
        next(iterator)
        time.sleep(20)  # torch raises here.

    guard = everybit.Guard(torch.nn.Linear(1, 1), run=tmp_path / "r", on_finding="record")
    with pytest.raises(RuntimeError, match="killed"), guard:
        loop()
    (finding,) = guard.findings
    assert (finding.rule, finding.where.worker) == ("DAT409", 0)
    assert "SIGKILL" in finding.message


def test_an_error_of_the_data_set_is_no_dead_worker(tmp_path: Path) -> None:
    guard = everybit.Guard(torch.nn.Linear(1, 1), run=tmp_path / "r", on_finding="record")
    with pytest.raises(ValueError, match="cannot be read"), guard:
        batches(DataLoader(Fails(), 2, num_workers=2), 1)
    assert guard.findings == ()


def test_the_policy_stops_before_the_batch_is_used(tmp_path: Path) -> None:
    loader = DataLoader(Stream(64, shared=False), 4, num_workers=2)
    used: list[Any] = []
    guard = everybit.Guard(torch.nn.Linear(1, 1), run=tmp_path / "r", on_finding="stop")
    with pytest.raises(everybit.StoppedError), guard:
        used.extend(each for each in loader)
    assert [each.rule for each in guard.findings] == ["DAT401"]
    assert len(list(everybit.open_run(tmp_path / "r").samples())) < 8


def test_batches_know_what_they_are_for(tmp_path: Path) -> None:
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train, check = DataLoader(data(8), 4), DataLoader(data(8), 4)
    with everybit.Guard(model, optimizer, run=tmp_path / "run") as guard:
        guard.track(check, "validation")
        for (inputs,) in train:
            model(inputs[:, None]).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        for _ in check:
            pass
    records = list(everybit.open_run(tmp_path / "run").samples())
    assert [(each.loader, each.step) for each in records] == [
        ("TensorDataset", 0),
        ("TensorDataset", 1),
        ("validation", -1),
        ("validation", -1),
    ]

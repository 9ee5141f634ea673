"""Batches that a loop fetched ahead, put where they were used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import everybit
from everybit.core.divergence import DivergenceKind
from everybit.core.samples import SampleRecord
from everybit.diff.look_ahead import as_used

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def delivered(pace: int, ahead: int, passes: list[int]) -> Iterator[tuple[SampleRecord, int]]:
    """Yield records of passes, each with the step that really used the batch."""
    step = 0
    for epoch, size in enumerate(passes):
        at = [step + max(0, batch - ahead) // pace for batch in range(size)]
        for batch, fetched in enumerate(at):
            yield _record(epoch, batch, fetched), step + batch // pace
        step += size // pace


def _record(epoch: int, batch: int, step: int, loader: str = "data") -> SampleRecord:
    return SampleRecord(
        loader=loader, epoch=epoch, batch=batch, step=step, worker=-1, rank=0, indices=(batch,)
    )


@pytest.mark.parametrize("pace", [1, 2, 3])
@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_each_batch_is_where_it_was_used(pace: int, ahead: int) -> None:
    told = list(delivered(pace, ahead, [6 * pace, 4 * pace, 9 * pace]))
    used = list(as_used((record for record, _ in told), lambda _: pace))
    assert [each.step for each in used] == [step for _, step in told]
    assert [(each.epoch, each.batch) for each in used] == [(r.epoch, r.batch) for r, _ in told]


def test_two_batches_for_one_loss_are_no_look_ahead() -> None:
    records = [_record(0, batch, batch // 2) for batch in range(8)]
    assert list(as_used(records, lambda _: 1)) == records


def test_a_larger_first_step_is_no_look_ahead() -> None:
    records = [_record(0, batch, max(0, batch - 1) // 2) for batch in range(9)]
    assert list(as_used(records, lambda step: 2 if step else 3)) == records


def test_what_was_fetched_and_never_used_is_left_out() -> None:
    records = [_record(0, batch, max(0, batch - 1)) for batch in range(4)]
    records += [_record(1, batch, 3 + max(0, batch - 1)) for batch in range(4)]
    used = list(as_used(records, lambda _: 1))
    assert [(each.epoch, each.batch, each.step) for each in used] == [
        *((0, batch, batch) for batch in range(3)),
        *((1, batch, 3 + batch) for batch in range(4)),
    ]


def test_another_loader_and_validation_stay_where_they_are() -> None:
    records = []
    for record, _ in delivered(1, 1, [6]):
        records.append(record)
        if record.batch:
            records.append(_record(0, record.batch - 1, record.step, "other"))
            records.append(_record(0, record.batch, -1, "validation"))
    used = list(as_used(records, lambda _: 1))
    steps = {name: [r.step for r in used if r.loader == name] for name in ("data", "other")}
    assert steps == {"data": [0, 1, 2, 3, 4, 5], "other": [0, 1, 2, 3, 4]}
    assert sum(r.step < 0 for r in used) == 5
    training = [r.step for r in used if r.step >= 0]
    assert training == sorted(training)


def ahead_of(loader: Any) -> Iterator[Any]:
    """Fetch one batch ahead, as Accelerate does."""
    batches = iter(loader)
    current = next(batches)
    for (following,) in batches:
        yield current
        current = [following]
    yield current


def train(run: Path, steps: int, saved: Any = None) -> Any:
    torch.manual_seed(0)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader(TensorDataset(torch.arange(64.0)[:, None]), batch_size=4, shuffle=True)
    with everybit.Guard(model, optimizer, run=run, on_finding="record"):
        if saved is not None:
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
        for number, (inputs,) in enumerate(ahead_of(loader)):
            model(inputs / 64).square().mean().backward()
            if number % 2:
                optimizer.step()
                optimizer.zero_grad()
            if number + 1 == 2 * steps:
                break
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


def test_a_resumed_run_takes_as_many_samples_as_the_other(tmp_path: Path) -> None:
    train(tmp_path / "whole", 8)
    train(tmp_path / "rest", 4, train(tmp_path / "half", 4))
    first = everybit.diff(tmp_path / "whole", tmp_path / "rest").first
    assert first is not None
    assert (first.where.step, first.kind) == (4, DivergenceKind.DATA)
    assert "of 8 samples differ" in first.why

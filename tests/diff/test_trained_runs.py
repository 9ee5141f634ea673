"""Runs that a Guard recorded, with faults planted by `inject`: what the diff says of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from everybit import Guard
from everybit.api.diff import diff
from everybit.inject import Campaign, draw_fault

if TYPE_CHECKING:
    from pathlib import Path

STEPS = 6


def train(
    path: Path, fault=None, *, seed: int = 0, data_seed: int = 0, steps=STEPS, wrap=False, **kw
):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.1), nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters())
    data = torch.Generator().manual_seed(data_seed)
    with (
        Guard(model, optimizer, run=path, **kw),
        Campaign(fault or [], model, optimizer, undo=False),
    ):
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.randn(4, 8, generator=data)).square().mean().backward()
            optimizer.step()
    return path, model, optimizer


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    return train(tmp_path_factory.mktemp("runs") / "clean")


def test_the_same_training_twice_is_clean(clean, tmp_path) -> None:
    assert diff(clean[0], train(tmp_path / "b")[0]).ok


def test_another_seed_parts_at_the_initial_weights(clean, tmp_path) -> None:
    verdict = diff(clean[0], train(tmp_path / "b", seed=1)[0])
    assert (verdict.first.kind, verdict.first.where.parameter) == ("init", "0.weight")
    assert [each["entry"] for each in verdict.explained_by] == ["seeds.torch"]


def test_other_data_parts_at_the_batch(clean, tmp_path) -> None:
    first = diff(clean[0], train(tmp_path / "b", data_seed=1)[0]).first
    assert (first.kind, first.where.link, first.where.step) == ("data", "batch", 0)


@pytest.mark.parametrize(
    "address", ["0.weight", "3.bias", "1.running_var", "3.weight:exp_avg_sq", "0.weight:exp_avg"]
)
def test_a_flipped_bit_is_named_as_corruption(clean, tmp_path, address: str) -> None:
    fault = draw_fault(clean[1], clean[2], seed=5, where=address, bits=(29,), step=3)
    first = diff(clean[0], train(tmp_path / "b", [fault])[0]).first
    assert first.kind == "corruption"
    assert first.where.link == "state"
    assert first.where.step == 3
    assert first.where.parameter == fault.parameter
    assert (first.where.tensor or "") == fault.tensor
    assert first.where.elements == fault.elements
    assert first.where.run == str(tmp_path / "b")


def test_a_healed_flip_leaves_no_difference(clean, tmp_path) -> None:
    fault = draw_fault(clean[1], clean[2], seed=5, where="0.weight", bits=(29,), step=3)
    assert diff(clean[0], train(tmp_path / "b", [fault], on_finding="heal")[0]).ok


def test_recording_every_other_step_is_compared_where_both_are(clean, tmp_path) -> None:
    verdict = diff(clean[0], train(tmp_path / "b", every=2)[0])
    assert verdict.ok
    assert verdict.stats["steps"] == 3

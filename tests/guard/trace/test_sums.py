"""Block sums: of which values, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from tests.guard.trace.traced import trace
from torch import nn

from everybit.core.link import Link
from everybit.core.signs import sums_of
from everybit.guard.trace.schedule import EVERY, FIRST

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.core.observation import StepRecord

X = torch.linspace(-1, 1, 32).reshape(4, 8)


def total(model: nn.Module) -> torch.Tensor:
    return model(X).pow(2).mean()


def names(record: StepRecord) -> list[tuple[str, ...]]:
    return [table.names for table in record.sums]


def test_rows_are_sums_of_the_values(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 100), nn.Linear(100, 2))
    hidden = model[0](X).detach().double().numpy().reshape(-1)
    (record,), _ = trace(tmp_path, model, total)
    first = record.sums[0]
    assert first.link is Link.FORWARD
    assert first.names == ("0()", "1()", "()")
    assert np.allclose(first.values[0], sums_of(hidden), rtol=1e-6, atol=1e-6)
    assert [table.link for table in record.sums] == [
        Link.FORWARD, Link.GRAD, Link.GRAD, Link.UPDATE
    ]  # fmt: skip
    weights = record.sums[3]
    assert weights.names == ("0.weight", "0.bias", "1.weight", "1.bias")
    final = model[1].weight.detach().double().numpy().reshape(-1)
    assert np.allclose(weights.values[2], sums_of(final), rtol=1e-6, atol=1e-6)


def test_at_the_first_steps_and_at_some_later(tmp_path: Path) -> None:
    steps = EVERY + 2
    records, _ = trace(tmp_path, nn.Sequential(nn.Linear(8, 2)), total, steps=steps)
    with_sums = [record.step for record in records if record.sums]
    assert with_sums == [*range(FIRST), EVERY]


def test_the_record_stays_small(tmp_path: Path) -> None:
    """Names, settings, environment and block sums included: of a small model, in a short run."""
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    records, _ = trace(tmp_path, model, total, steps=EVERY)
    num_values = sum(len(table.names) for record in records for table in record.tables)
    (log,) = tmp_path.glob("*.log")
    assert log.stat().st_size / num_values < 100


def test_what_is_asked_for_comes_at_every_step(tmp_path: Path) -> None:
    records, _ = trace(
        tmp_path,
        nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2)),
        total,
        steps=FIRST + 1,
        trace_sums="1(), grad 0*,1.weight",
    )
    assert names(records[-1]) == [("1()",), ("grad 0()",), ("1.weight",), ("1.weight",)]


def test_without_tracing_too_of_gradients_and_weights(tmp_path: Path) -> None:
    (record,), _ = trace(tmp_path, nn.Sequential(nn.Linear(8, 2)), total, level="step")
    assert names(record) == [("0.weight", "0.bias")] * 2
    assert not [table for table in record.tables if table.link is Link.FORWARD]


def test_integers_and_outputs_without_numbers_have_none(tmp_path: Path) -> None:
    class Top(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.argmax(-1)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(8, 2)
            self.top = Top()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.fc(x)
            self.top(y)
            return y

    (record,), _ = trace(tmp_path, Model(), total)
    assert record.tables[2].names == ("fc()", "top()", "()")
    assert record.sums[0].names == ("fc()", "()")

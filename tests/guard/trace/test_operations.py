"""Tracing by operation, and at chosen steps only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from tests.guard.trace.traced import gradients, outputs, trace
from torch import nn

from everybit.core.errors import ConfigError
from everybit.core.steps import Steps
from everybit.core.trace_name import parse_trace_name
from everybit.guard.guard import Guard
from everybit.probe.digest import memory_words

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.core.observation import StepRecord

X = torch.linspace(-1, 1, 32).reshape(4, 8)


def total(model: nn.Module) -> torch.Tensor:
    return model(X).pow(2).mean()


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.fc(x) * 2)


def operations(record: StepRecord) -> list[str]:
    names = [*outputs(record), *gradients(record)]
    return [name for name in names if (read := parse_trace_name(name)) and read.op]


def test_each_operation_under_its_module(tmp_path: Path) -> None:
    model = nn.Sequential(Block(), nn.Linear(8, 2))
    (record,), _ = trace(tmp_path, model, total, level="op")
    assert list(outputs(record)) == [
        "0.fc() aten.addmm#0",
        "0.fc()",
        "0() aten.mul.Tensor#0",
        "0() aten.tanh#0",
        "0() aten.add.Tensor#0",
        "0()",
        "1() aten.addmm#0",
        "1()",
        "()",
    ]
    names = list(gradients(record))
    assert "grad 0() aten.tanh_backward#0" in names
    assert "grad 0.fc() aten.mm#0" in names
    assert names.index("grad 0()") < names.index("grad 0() aten.tanh_backward#0")
    before = X @ model[0].fc.weight.detach().t()
    assert outputs(record)["0.fc()"] == outputs(record)["0.fc() aten.addmm#0"]
    assert outputs(record)["0.fc()"] not in memory_words([before])


def test_at_chosen_steps_only(tmp_path: Path) -> None:
    model = nn.Sequential(Block())
    records, guard = trace(tmp_path, model, total, steps=5, level="op", trace_steps="1,3-3")
    assert [bool(operations(record)) for record in records] == [False, True, False, True, False]
    assert all("0.fc()" in outputs(record) for record in records)
    assert guard.stats["op_steps"] == 2
    assert guard.stats["op_step_cost"] > 0


def test_the_next_operation_that_differs_is_named(tmp_path: Path) -> None:
    """A fault within a module is placed behind the operation that made it."""

    class Faulty(Block):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.tanh(self.fc(x) * 2)
            y.detach().numpy().view("uint32")[1, 2] ^= 1 << 20  # past torch
            return x + y

    def run(kind: type[nn.Module], folder: str) -> StepRecord:
        torch.manual_seed(0)
        return trace(tmp_path / folder, nn.Sequential(kind()), total, level="op")[0][0]

    a, b = run(Block, "a"), run(Faulty, "b")
    pairs = zip(outputs(a).items(), outputs(b).items(), strict=True)
    assert next(name for (name, x), (_, y) in pairs if x != y) == "0() aten.add.Tensor#0"


@pytest.mark.parametrize("text", ["", "x", "3-", "5-3", "1,,2", "-1", "1.5"])
def test_no_choice_of_steps(text: str) -> None:
    with pytest.raises(ConfigError, match="trace_steps"):
        Guard(run="unused", trace="op", trace_steps=text or "x,")
    with pytest.raises(ValueError, match="step"):
        Steps.parse(text)


def test_steps_are_chosen_for_operations_only() -> None:
    with pytest.raises(ConfigError, match="set trace to op"):
        Guard(run="unused", trace="module", trace_steps="3")
    assert 3 in Steps()

"""Before the run: what does not repeat is named with what would make it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.guard.replay.loops import GPT, next_token_loss
from tests.guard.replay.test_catches import Counts
from torch import nn

import everybit

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _two_threads() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


class Part(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.counts = Counts()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.counts(x).tanh()


def train(model: nn.Module, loss_of: Any, run: Path, **settings: Any) -> everybit.Guard:
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    settings = {"on_finding": "record", "preflight": True, **settings}
    with everybit.Guard(model, optimizer, run=run, **settings) as guard:
        for _ in range(3):
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
    return guard


def test_additions_in_no_order_are_named(tmp_path: Path) -> None:
    # Hundreds of thousands of additions into four rows: they never come in the same order thrice.
    guard = train(Part(), lambda model: model(torch.randn(300_000, 8)).square().mean(), tmp_path)
    found = [each for each in guard.findings if each.rule == "CMP703"]
    assert found
    assert not any(each.severity == "error" for each in guard.findings)
    finding = found[0]
    assert finding.where.module == "counts"
    assert finding.evidence["operation"] == "index_put"
    assert "torch.set_num_threads(1)" in finding.evidence["repeats_with"]
    assert finding.evidence["cost_of_determinism"] > 0
    assert len({each.where.module for each in found}) == len(found)  # Once each.


@pytest.mark.parametrize("every", [0, 100])
def test_a_model_that_repeats_is_told_so(every: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    guard = train(
        GPT(),
        lambda model: next_token_loss(model, torch.randint(50, (4, 9))),
        tmp_path,
        replay_every=every,
    )
    assert guard.findings == ()
    coverage = guard.verdict.coverage
    (count,) = (each.count for each in coverage.checked if "before the run" in each.what)
    assert count > 50
    assert any("outside the model" in each.what for each in coverage.skipped)
    assert guard.verdict.ok


def test_what_cannot_be_repeated_is_no_clean_preflight(tmp_path: Path) -> None:
    model = nn.Linear(4, 2)
    model.register_forward_hook(lambda *_: None)
    guard = train(model, lambda model: model(torch.randn(8, 4)).square().mean(), tmp_path)
    (skipped,) = (each for each in guard.verdict.coverage.skipped if each.what == "preflight")
    assert skipped.promised
    assert "hooks of the program" in skipped.why

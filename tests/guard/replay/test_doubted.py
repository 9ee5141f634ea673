"""A loss that a sensor doubts has its step computed again, planned or not."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.guard.replay.faults import wrong_once
from torch import nn

import everybit
from everybit.guard.replay.standby import Affordable

if TYPE_CHECKING:
    from pathlib import Path

AT = 45


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quick record costs much beside the steps of so small a model."""
    monkeypatch.setattr(Affordable, "now", True)


def train(guard_of: Any, *, factor: float = 1.0, bit: int | None = None) -> everybit.Guard:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    rng = random.Random(0)
    with guard_of(model, optimizer) as guard:
        for step in range(AT + 3):
            x = torch.randn(32, 16) * (factor if step == AT else 1.0)
            optimizer.zero_grad()
            if step == AT and bit is not None:
                with wrong_once(model[2], "activation", rng, bit=bit):
                    loss = model(x).abs().mean()
            else:
                loss = model(x).abs().mean() + (factor - 1) * (step == AT)
            loss.backward()
            optimizer.step()
    return guard


def guard_at(run: Path, every: int) -> Any:
    return lambda *things: everybit.Guard(*things, run=run, replay_every=every, on_finding="record")


@pytest.mark.parametrize("every", [0, 100, 1])
def test_a_bad_batch_repeats_exactly(every: int, tmp_path: Path) -> None:
    guard = train(guard_at(tmp_path / "run", every), factor=20.0)
    (finding,) = guard.findings
    assert (finding.rule, finding.severity, finding.where.step) == ("NUM503", "warning", AT)
    assert finding.evidence["replayed"] == "exactly"
    assert "not the device" in finding.message


def test_a_flip_that_makes_the_loss_jump_is_the_devices(tmp_path: Path) -> None:
    guard = train(guard_at(tmp_path / "run", 100), bit=30)
    rules = {finding.rule: finding for finding in guard.findings}
    assert rules["CMP701"].where.step == AT
    assert rules["CMP701"].severity == "error"
    assert "NUM503" not in rules  # It follows from what was told.


def test_without_a_record_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Affordable, "now", False)
    guard = train(guard_at(tmp_path / "run", 100), factor=20.0)
    (finding,) = guard.findings
    assert finding.evidence["replayed"].startswith("not replayed")


def test_what_costs_too_much_is_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    affordable = Affordable()
    for _ in range(8):
        affordable.spend(1.0)
        affordable.end_step()
    assert not affordable.now

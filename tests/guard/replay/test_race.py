"""A race is told from an operation that never repeats: it repeats where each one is waited for."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import everybit
from everybit.guard.replay import synchronous

if TYPE_CHECKING:
    from pathlib import Path


class Device:
    """What stands for an accelerator: its kernels are on their way until they are waited for."""

    def __init__(self) -> None:
        self.on_their_way = 0
        self.waits = itertools.count()  # A number would be put back behind each repeat.

    def wait(self) -> None:
        next(self.waits)
        self.on_their_way = 0


class Copying(nn.Module):
    """Reads a tensor that a copy is still writing to, unless that is waited for."""

    def __init__(self, device: Device, *, races: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.device, self.races, self.tick = [device], races, itertools.count()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        (device,) = self.device
        device.on_their_way += 1
        y = self.linear(x)
        late = device.on_their_way > 0
        if late or not self.races:
            y = y + next(_TICK) * 1e-3
        return y


_TICK = itertools.count()


def run(folder: Path, model: nn.Module) -> everybit.Guard:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with everybit.Guard(
        model, optimizer, run=folder, on_finding="record", replay_every=1, numerics=False
    ) as guard:
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.randn(4, 8)).square().mean().backward()
            optimizer.step()
    return guard


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    made = Device()
    monkeypatch.setattr(synchronous, "waiting_for", lambda _: made.wait)
    return made


def test_a_race_repeats_when_it_is_waited_for(device: Device, tmp_path: Path) -> None:
    guard = run(tmp_path / "run", Copying(device, races=True))
    (finding,) = guard.findings
    assert (finding.rule, finding.severity) == ("CMP701", "warning")
    assert finding.evidence["verdict"] == "race"
    assert finding.evidence["computations_that_agree"] >= synchronous.NUM_SYNCHRONOUS
    assert finding.evidence["computations_that_do_not"] >= synchronous.MIN_APART
    assert "TORCH_CUDA_SANITIZER" in finding.remedy
    assert "device_history" not in finding.evidence  # It accuses no device.
    assert next(device.waits)


def test_what_never_repeats_is_no_race(device: Device, tmp_path: Path) -> None:
    guard = run(tmp_path / "run", Copying(device, races=False))
    (finding,) = guard.findings
    assert (finding.rule, finding.severity) == ("CMP703", "note")
    assert finding.evidence["verdict"] == "nondeterministic"


def test_on_the_cpu_nothing_is_waited_for(tmp_path: Path) -> None:
    guard = run(tmp_path / "run", Copying(Device(), races=True))
    assert [finding.rule for finding in guard.findings] == ["CMP703"]

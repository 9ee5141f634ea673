"""A loss that grows because its inputs come sorted, and one that grows as training diverges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

import everybit

if TYPE_CHECKING:
    from pathlib import Path


def told(run: Path, *, rate: float, grows: bool) -> list[str]:
    torch.manual_seed(0)
    hidden = torch.nn.Linear(4, 4)
    model = torch.nn.Sequential(hidden, torch.nn.Linear(4, 1)) if grows else torch.nn.Linear(4, 1)
    kind = torch.optim.AdamW if grows else torch.optim.SGD
    optimizer = kind(model.parameters(), lr=rate)
    with everybit.Guard(model, optimizer, run=run, on_finding="record") as guard:
        for step in range(40):
            level = 4.0 * (step % 10) if grows else 3.0
            loss = model(level + torch.rand(4, 4)).square().mean()
            if not loss.isfinite():
                break
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    return [finding.rule for finding in guard.findings]


def test_sorted_inputs_are_no_divergence(tmp_path: Path) -> None:
    assert told(tmp_path / "sorted", rate=1e-3, grows=True) == []


def test_too_high_a_rate_is_one(tmp_path: Path) -> None:
    assert "NUM511" in told(tmp_path / "diverging", rate=0.021, grows=False)

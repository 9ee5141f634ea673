"""Loaders that are gone over side by side go on, each from its own order."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.guard.samples.loops import Noisy, seed
from torch.utils.data import DataLoader, RandomSampler

import everybit

if TYPE_CHECKING:
    from pathlib import Path


def loaders(kind: str) -> list[Any]:
    if kind == "global":
        return [DataLoader(Noisy(), size, shuffle=True) for size in (4, 3)]
    own = torch.Generator().manual_seed(3)
    if kind == "shared":
        return [DataLoader(Noisy(), size, shuffle=True, generator=own) for size in (4, 3)]
    draws = RandomSampler(Noisy(), replacement=True, num_samples=48, generator=own)
    return [DataLoader(Noisy(), 4, sampler=draws), DataLoader(Noisy(), 3, shuffle=True)]


def train(kind: str, run: Path, steps: int, *, saved: Any = None, at: int = -1) -> Any:
    seed()
    both = loaders(kind)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    log, state, step = [], io.BytesIO(), 0
    with everybit.Guard(model, optimizer, run=run, on_finding="record") as guard:
        if saved is not None:
            saved.seek(0)
            held = torch.load(saved, weights_only=True)
            model.load_state_dict(held["model"])
            optimizer.load_state_dict(held["optimizer"])
            guard.load_state_dict(held["guard"])
            step = held["step"]
        while step < steps:
            for (first, ours), (second, theirs) in zip(*both, strict=False):
                loss = model(torch.cat([first, second]).float()).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                step += 1
                log.append((step, ours.tolist(), theirs.tolist(), loss.item()))
                if step == at:
                    held = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                    torch.save(held | {"guard": guard.state_dict(), "step": step}, state)
                if step == steps:
                    break
    assert not guard._fence.fault
    return log, state, {finding.rule for finding in guard.findings}


@pytest.mark.parametrize("kind", ["global", "shared", "drawn in pieces"])
@pytest.mark.parametrize("at", [2, 9])
def test_two_loaders_side_by_side(kind: str, at: int, tmp_path: Path) -> None:
    whole, saved, _ = train(kind, tmp_path / "whole", 11, at=at)
    rest, _, rules = train(kind, tmp_path / "rest", 11, saved=saved)
    assert rest == whole[at:]
    assert "DAT407" not in rules

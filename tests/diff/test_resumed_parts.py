"""A run that calls parts of its model only, gone on with: its statistics are first read late."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader, TensorDataset

import everybit
from everybit.core.divergence import DivergenceKind
from everybit.core.link import Link
from everybit.core.verdict import Status

if TYPE_CHECKING:
    from pathlib import Path


def train(run: Path, steps: int, saved: Any = None, *, statistics: bool = True) -> Any:
    """Train as Lightning does: parts are called, within the closure of the optimizer."""
    torch.manual_seed(0)
    model = torch.nn.ModuleDict(
        {
            "encoder": torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)),
            "decoder": torch.nn.Linear(4, 2),
        }
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(torch.randn(32, 4)), batch_size=4, shuffle=True)
    with everybit.Guard(model, optimizer, run=run, on_finding="record") as guard:
        if saved is not None:
            state = dict(saved["model"])
            if not statistics:
                state |= {n: v for n, v in model.state_dict().items() if "running" in n}
            model.load_state_dict(state)
            optimizer.load_state_dict(saved["optimizer"])
            if "guard" in saved:
                guard.load_state_dict(saved["guard"])
        batches = iter(loader)
        for _ in range(steps):
            (inputs,) = next(batches)

            def closure(inputs: torch.Tensor = inputs) -> torch.Tensor:
                optimizer.zero_grad()
                loss: torch.Tensor = model["decoder"](model["encoder"](inputs)).square().mean()
                loss.backward()  # type: ignore[no-untyped-call]
                return loss

            optimizer.step(closure)
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        return copy.deepcopy(state | {"guard": guard.state_dict()})


def test_gone_on_with_exactly(tmp_path: Path) -> None:
    whole = train(tmp_path / "whole", 6)
    rest = train(tmp_path / "rest", 3, train(tmp_path / "half", 3))
    assert all(torch.equal(a, b) for a, b in zip(*_states(whole, rest), strict=True))
    verdict = everybit.diff(tmp_path / "whole", tmp_path / "rest")
    assert (verdict.status, verdict.findings) == (Status.CLEAN, ())


def test_other_samples_are_named_at_their_step(tmp_path: Path) -> None:
    train(tmp_path / "whole", 6)
    saved = train(tmp_path / "half", 3)
    del saved["guard"]
    train(tmp_path / "rest", 3, saved)
    first = everybit.diff(tmp_path / "whole", tmp_path / "rest").first
    assert first is not None
    assert (first.kind, first.where.step) == (DivergenceKind.DATA, 3)
    assert "inputs are not on record in both runs" in first.why
    assert "4 of 4 samples differ" in first.why


def test_statistics_that_did_not_come_along_are_no_late_look(tmp_path: Path) -> None:
    train(tmp_path / "whole", 6)
    train(tmp_path / "rest", 3, train(tmp_path / "half", 3), statistics=False)
    first = everybit.diff(tmp_path / "whole", tmp_path / "rest").first
    assert first is not None
    assert (first.where.step, first.where.link) == (0, Link.INIT)
    assert first.kind is DivergenceKind.UNKNOWN


def _states(*saved: Any) -> list[list[torch.Tensor]]:
    return [list(each["model"].values()) for each in saved]

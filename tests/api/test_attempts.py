"""A run that is started again in its folder: what followed the checkpoint, before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import everybit
from everybit.api.report import verdict_of_run

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.core.finding import Finding

NUMBERS = {"cat": 0, "dog": 1, "owl": 2}


class Animals(Dataset[tuple[torch.Tensor, int]]):
    """Pictures by name, numbered by a map of its own."""

    def __init__(self, numbers: dict[str, int]) -> None:
        self.class_to_idx = numbers
        self.x = torch.randn(24, 6, generator=torch.Generator().manual_seed(3))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, at: int) -> tuple[torch.Tensor, int]:
        return self.x[at], self.class_to_idx[sorted(self.class_to_idx)[at % 3]]


def train(
    run: Path,
    steps: int,
    saved: dict[str, Any] | None = None,
    *,
    position: bool = False,
    save_at: int = 0,
    seed: int = 0,
    shuffle: bool = True,
    numbers: dict[str, int] = NUMBERS,
    skip: int = 0,
) -> dict[str, Any]:
    """Train on batches of four, six to a pass; return what stood after `save_at` steps."""
    torch.manual_seed(seed)
    model = torch.nn.Linear(6, 3)
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(Animals(numbers), 4, shuffle=shuffle)
    kept: dict[str, Any] = {}
    done = 0
    with everybit.Guard(model, optimizer, run=run, on_finding="record") as guard:
        if saved is not None:
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(_copy(saved["optimizer"]))
            if position:
                guard.load_state_dict(saved["guard"])
        while done < steps:
            for x, y in loader:
                if skip:
                    skip -= 1
                    continue
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
                optimizer.zero_grad()
                done += 1
                if done == save_at:
                    kept = {
                        name: {key: _copy(each) for key, each in part.state_dict().items()}
                        for name, part in (("model", model), ("optimizer", optimizer))
                    }
                    kept["guard"] = guard.state_dict()
                if done == steps:
                    break
    return kept


def _copy(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {key: _copy(each) for key, each in value.items()}
    return [_copy(each) for each in value] if isinstance(value, list) else value


def found(run: Path) -> list[Finding]:
    return list(verdict_of_run(everybit.open_run(run)).findings)


def told(run: Path) -> list[str]:
    return [f"{each.rule} {each.severity} {each.evidence.get('shift')}" for each in found(run)]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"position": True}, []),
        ({"shuffle": False}, ["DAT407 error -4"]),
        ({"shuffle": False, "skip": 4}, []),
        ({"shuffle": False, "skip": 5}, ["DAT407 error 1"]),
        ({"seed": 5}, ["DAT407 warning None"]),
    ],
)
def test_a_resume_in_the_middle_of_a_pass(
    settings: dict[str, Any], expected: list[str], tmp_path: Path
) -> None:
    first = {"shuffle": settings.get("shuffle", True)}
    saved = train(tmp_path, 8, save_at=4, **first)
    train(tmp_path, 3, saved, **settings)
    assert told(tmp_path) == expected


def test_a_new_pass_and_a_new_beginning(tmp_path: Path) -> None:
    # The checkpoint was written behind the sixth and last batch: another shuffle is no fault.
    saved = train(tmp_path / "passes", 9, save_at=6)
    train(tmp_path / "passes", 3, saved, seed=5)
    assert told(tmp_path / "passes") == []
    # From the start once more, with no checkpoint.
    train(tmp_path / "anew", 5)
    train(tmp_path / "anew", 5)
    train(tmp_path / "anew", 3, seed=1)
    assert told(tmp_path / "anew") == []
    # What it goes on from is two attempts back, and the one between came to nothing.
    saved = train(tmp_path / "twice", 8, save_at=4, shuffle=False)
    train(tmp_path / "twice", 2, saved, shuffle=False, skip=4)
    train(tmp_path / "twice", 2, saved, shuffle=False)
    assert told(tmp_path / "twice") == ["DAT407 error -4"]


def test_labels_that_are_numbered_otherwise(tmp_path: Path) -> None:
    saved = train(tmp_path, 6, save_at=6)
    train(tmp_path, 3, saved, position=True)
    more = {**NUMBERS, "yak": 3}  # A class more is no contradiction.
    train(tmp_path, 3, numbers=more)
    assert found(tmp_path) == []
    train(tmp_path, 3, numbers={"cat": 0, "dog": 2, "owl": 1})
    (finding,) = found(tmp_path)
    assert finding.rule == "DAT414"
    assert finding.evidence["owners"] == ["the attempt before", "attempt 3"]
    assert finding.evidence["labels"] == {"dog": [1, 2], "owl": [2, 1]}

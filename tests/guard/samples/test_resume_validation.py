"""A validation loader of a run that is gone on with: each trainer's own way to iterate it."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.guard.samples.loops import Noisy, Training, guarded, seed
from torch.utils.data import DataLoader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Counting:
    """Counts batches, as Lightning does: it never asks for the end, and keeps its iterator."""

    def __init__(self, loader: Any, limit: int) -> None:
        self._loader = loader
        self._limit = limit
        self._held: Any = None

    def __call__(self) -> list[int]:
        self._held = iter(self._loader)
        return [int(key) for _, keys in islice(self._held, self._limit) for key in keys]


class GoingOn:
    """Takes the next batch, and begins anew only where there is none."""

    def __init__(self, loader: Any, _limit: int) -> None:
        self._loader = loader
        self._held: Any = None

    def __call__(self) -> list[int]:
        self._held = self._held or iter(self._loader)
        try:
            _, keys = next(self._held)
        except StopIteration:
            self._held = iter(self._loader)
            _, keys = next(self._held)
        return [int(key) for key in keys]


WAYS: dict[str, tuple[Any, int]] = {
    "counts all": (Counting, 3),
    "counts some": (Counting, 2),
    "goes on": (GoingOn, 1),
}


def train(way: str, run: Path, *, stop: int = 18, saved: bytes = b"") -> tuple[list[Any], bytes]:
    """Train for three passes of six batches, and validate after every second update."""
    seed()
    training = Training(DataLoader(Noisy(), batch_size=4, shuffle=True))
    validation = DataLoader(Noisy(12), batch_size=4, shuffle=True)
    kind, limit = WAYS[way]
    validate = kind(validation, limit)
    log: list[Any] = []
    with guarded(training, run) as guard:
        next(iter(validation))  # A look at a sample.
        if saved:
            training.load(saved, guard)
        elif kind is Counting:  # Lightning's look at validation before the first step.
            _validated(validate, training)
        for entry in training.steps(3):
            log.append(entry)
            if training.step % 2 == 0:
                log.append(_validated(validate, training))
            if training.step == stop:
                break
        # A validation that goes on begins anew now and then, and that moves the order.
        assert guard.findings == () or kind is GoingOn
        return log, training.save(guard)


def _validated(validate: Callable[[], list[int]], training: Training) -> list[int]:
    training.model.eval()
    with torch.no_grad():
        keys = validate()
    training.model.train()
    return keys


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("stop", [4, 9])
def test_validation_goes_on_as_it_would_have(way: str, stop: int, tmp_path: Path) -> None:
    whole, _ = train(way, tmp_path / "whole")
    first, saved = train(way, tmp_path / "half", stop=stop)
    rest, _ = train(way, tmp_path / "rest", saved=saved)
    assert first + rest == whole

"""Workers that die while the Guard ends, and what a process gets that asks a dead one."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import everybit
from everybit.guard.checks import Checks
from everybit.ledger import EndReason

if TYPE_CHECKING:
    from pathlib import Path


def guarded(place: Path) -> everybit.Guard:
    return everybit.Guard(torch.nn.Linear(1, 1), run=place, on_finding="record")


def begun() -> Any:
    iterator = iter(DataLoader(TensorDataset(torch.arange(64.0)), 4, num_workers=2))
    next(iterator)
    return iterator


def kill(iterator: Any) -> None:
    """Kill the first worker, and have torch not hear of it."""
    handler = signal.signal(signal.SIGCHLD, lambda *_: None)
    try:
        os.kill(iterator._workers[0].pid, signal.SIGKILL)
        iterator._workers[0].join()
    finally:
        signal.signal(signal.SIGCHLD, handler)


@pytest.mark.parametrize("dies", [True, False])
def test_a_batch_that_a_dead_worker_holds(dies: bool, tmp_path: Path) -> None:
    def loop() -> None:
        iterator = begun()
        if dies:
            kill(iterator)
        # What torch gets that opens the memory of a batch. Without a death: the program's own.
        raise ConnectionResetError(104, "Connection reset by peer")

    guard = guarded(tmp_path / "r")
    with pytest.raises(ConnectionResetError), guard:
        loop()
    found = [(each.rule, each.where.worker) for each in guard.findings]
    assert found == ([("DAT409", 0)] if dies else [])


def test_a_worker_that_dies_while_the_guard_ends(tmp_path: Path, monkeypatch: Any) -> None:
    held: list[Any] = []
    close = Checks.close

    def closing(checks: Checks) -> Any:
        os.kill(held[0]._workers[0].pid, signal.SIGKILL)
        time.sleep(0.5)  # torch would raise here.
        return close(checks)

    monkeypatch.setattr(Checks, "close", closing)
    guard = guarded(tmp_path / "r")
    with pytest.raises(RuntimeError, match="killed"), guard:
        held.append(begun())
    assert guard.coverage is not None
    end = everybit.open_run(tmp_path / "r").log().end
    assert end is not None
    assert end.reason is EndReason.CLEAN

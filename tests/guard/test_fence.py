"""The fence around the Guard's own work: whose error it is that comes out of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

import everybit

if TYPE_CHECKING:
    from pathlib import Path

KILLED = "DataLoader worker (pid 71) is killed by signal: Killed. "


def failing(message: str) -> Any:
    def fail(*_args: Any) -> None:
        raise RuntimeError(message)

    return fail


@pytest.mark.parametrize("message", [KILLED, "DataLoader worker (pid(s) 7, 8) exited unexpectedly"])
def test_what_torch_raises_in_our_midst_is_the_programs(message: str, tmp_path: Path) -> None:
    guard = everybit.Guard(torch.nn.Linear(1, 1), run=tmp_path / "run")
    with pytest.raises(RuntimeError, match="worker"), guard:
        guard._fence(failing(message))
    assert not guard._fence.fault


def test_a_fault_of_ours_is_told_once_and_goes_no_further(tmp_path: Path) -> None:
    with everybit.Guard(torch.nn.Linear(1, 1), run=tmp_path / "run") as guard:
        assert guard._fence(failing("a DataLoader worker (pid 71) is no error of torch's")) is None
    assert guard._fence.fault


def test_a_worker_that_dies_as_the_guard_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = everybit.Guard(torch.nn.Linear(1, 1), run=tmp_path / "run")
    monkeypatch.setattr(guard._data, "close", failing(KILLED))
    with pytest.raises(RuntimeError, match="worker"), guard:
        pass
    assert guard.coverage is not None

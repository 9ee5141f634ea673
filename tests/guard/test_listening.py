"""Who listens to a Guard: callbacks, a webhook, trackers; and settings from the environment."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from tests.guard.watched import bits_of, build, flip, train_step

import everybit
from everybit import UsageError
from everybit.sinks import tracker as tracker_module
from everybit.sinks import webhook as webhook_module

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "T0SECRETB1"


def train(path: Path, *, damage: bool = True, **settings: Any) -> Any:
    model, optimizer = build()
    guard = everybit.Guard(model, optimizer, run=path, **settings)
    with guard:
        for step in range(4):
            if damage and step == 2:
                flip(model[3].weight, 5, 3)
            train_step(model, optimizer)
    return guard, bits_of(model, optimizer)


def test_everybody_is_told_and_nothing_changes(
    tmp_path: Path, monkeypatch: Any, caplog: Any
) -> None:
    posted: list[bytes] = []
    monkeypatch.setattr(tracker_module, "CLOSE_S", 60.0)
    monkeypatch.setattr(webhook_module, "FLUSH_S", 60.0)
    monkeypatch.setattr(webhook_module, "post_json", lambda _, data: posted.append(data) or 200)
    seen: list[Any] = []
    settings = {"webhook": f"https://x.example/{SECRET}", "track": "prometheus,tensorboard"}
    guard, bits = train(
        tmp_path / "run", callbacks=[seen.append], on_finding="heal", shadow=True, **settings
    )
    drawn = random.random(), np.random.rand(), torch.rand(1).item()
    assert seen == list(guard.findings)
    assert len(seen) == len(posted) == 1
    text = (guard.path / "everybit.prom").read_text()
    assert 'rule="MEM601"} 1.0' in text
    assert "everybit_step{" in text
    assert list((guard.path / "tensorboard").iterdir())
    assert [line for line in caplog.messages if "MEM601" not in line] == []
    # Neither the record nor what is said holds the secret part of the address.
    for path in guard.path.rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes(), path
    assert everybit.open_run(guard.path).log().header["config"]["webhook"] == (
        "https://x.example/..."
    )
    _, clean = train(tmp_path / "clean", damage=False)
    assert bits == clean
    assert drawn == (random.random(), np.random.rand(), torch.rand(1).item())


def test_a_callback_has_the_programs_own_modes_and_its_error_is_a_warning(
    tmp_path: Path, caplog: Any
) -> None:
    modes: list[bool] = []

    def broken(_finding: Any) -> None:
        modes.append(torch.is_grad_enabled())
        raise ValueError("no such channel")

    guard, _ = train(tmp_path / "run", callbacks=[broken], on_finding="record")
    assert modes == [True]
    assert len(caplog.messages) == 1
    assert "broken failed and is told no more; ValueError: no such channel" in caplog.messages[0]
    assert guard.stats["steps"] == 4
    assert not [item for item in guard.coverage.skipped if "fault" in item.why]


def test_settings_come_from_the_environment_and_arguments_win(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("EVERYBIT_EVERY", "2")
    monkeypatch.setenv("EVERYBIT_ON_FINDING", "heal")
    model, optimizer = build()
    guard = everybit.Guard(model, optimizer, run=tmp_path / "a", on_finding="record")
    assert (guard.config.every, guard.config.on_finding) == (2, "record")
    monkeypatch.setenv("EVERYBIT_EVRY", "2")
    with pytest.raises(UsageError, match="did you mean 'EVERYBIT_EVERY'"):
        everybit.Guard(model, optimizer)


def test_a_tracker_that_is_not_installed_is_told_before_the_loop(
    tmp_path: Path, monkeypatch: Any
) -> None:
    model, optimizer = build()
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(UsageError, match="track: wandb is not installed"):
        everybit.Guard(model, optimizer, run=tmp_path / "run", track="wandb")
    assert not (tmp_path / "run").exists()


def test_a_callback_may_save_a_checkpoint(tmp_path: Path, caplog: Any) -> None:
    model, optimizer = build()
    seen: list[Any] = []

    def save(finding: Any) -> None:
        seen.append(finding)
        torch.save([model.state_dict(), optimizer.state_dict()], tmp_path / "saved.pt")

    settings = {"run": tmp_path / "run", "on_finding": "heal", "callbacks": [save]}
    with everybit.Guard(model, optimizer, **settings) as guard:
        for step in range(4):
            if step == 2:
                flip(model[3].weight, 5, 3)
            train_step(model, optimizer)
    assert seen == list(guard.findings)
    assert len(seen) == 1
    assert (tmp_path / "saved.pt").exists()
    assert guard.stats["steps"] == 4

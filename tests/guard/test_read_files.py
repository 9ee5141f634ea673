"""Files that a program reads before its first step are on record once, and later ones are not."""

from __future__ import annotations

from pathlib import Path

import torch

import everybit
from everybit.host.read_files import read_files


def _train(run: Path, steps: int, *, between=lambda _: None) -> list[dict]:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    guard = everybit.Guard(model, optimizer, run=run, replay_every=0, on_finding="record")
    Path("early.json").read_text()
    with guard:
        Path("within.yaml").read_text()
        for step in range(steps):
            between(step)
            model(torch.ones(3, 2)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    log = everybit.open_run(run).log()
    return [dict(each.data) for each in log.observations if each.kind == "read-files"]


def _files(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    # Written by another program, as far as the record is concerned.
    read_files.rest()
    for name in ("early.json", "within.yaml", "late.json"):
        Path(name).write_text(name)


def test_a_guard_puts_them_on_record_with_its_first_step(tmp_path, monkeypatch) -> None:
    _files(tmp_path, monkeypatch)
    (told,) = _train(tmp_path / "run", 3, between=lambda k: k and Path("late.json").read_text())
    assert {"early.json", "within.yaml"} <= set(told["files"])
    assert "late.json" not in told["files"]
    assert told["whole"] is False
    assert not read_files.listening


def test_a_second_guard_of_the_process_has_them_too(tmp_path, monkeypatch) -> None:
    _files(tmp_path, monkeypatch)
    first = _train(tmp_path / "a", 2)
    second = _train(tmp_path / "b", 2)
    assert first[0]["files"].items() <= second[0]["files"].items()
    assert everybit.diff(tmp_path / "a", tmp_path / "b").stats["preceding_differences"] == 0


def test_without_a_step_there_is_nothing_to_tell_and_nobody_listens(tmp_path, monkeypatch) -> None:
    _files(tmp_path, monkeypatch)
    assert _train(tmp_path / "run", 0) == []
    assert not read_files.listening

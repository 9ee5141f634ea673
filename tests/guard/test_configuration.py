"""What the program has set is on record: at first, and as it changes."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

import everybit
from everybit.guard.configuration.delta import delta_of, merged

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def told(folder: Path) -> list[tuple[int, Any]]:
    log = everybit.open_run(folder).log()
    return [(each.step, each.data) for each in log.observations if each.kind == "configuration"]


def whole(folder: Path) -> Any:
    return reduce(merged, (data for _, data in told(folder)), {})


def train(
    folder: Path,
    *,
    steps: int = 4,
    kind: Any = torch.optim.AdamW,
    at: Callable[[int, nn.Module, Any], None] = lambda *_: None,
    scheduler: Callable[[Any], Any] | None = None,
) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.25), nn.Linear(4, 1))
    optimizer = kind(model.parameters(), lr=0.5)
    schedule = scheduler(optimizer) if scheduler else None
    with everybit.Guard(model, optimizer, run=folder, replay_every=0):
        for step in range(steps):
            at(step, model, optimizer)
            model(torch.randn(8, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            if schedule is not None:
                schedule.step()


def test_all_of_it_at_first_and_nothing_later(tmp_path: Path) -> None:
    train(tmp_path)
    assert {step for step, _ in told(tmp_path)} == {0}
    found = whole(tmp_path)
    assert found["modes"] == {"": "train"}
    assert (
        found["modules"]["1"] | {"class": "BatchNorm1d", "momentum": 0.1, "eps": 1e-5}
        == found["modules"]["1"]
    )
    assert found["modules"]["2"] == {"class": "Dropout", "p": 0.25, "inplace": False}
    group = found["optimizers"]["AdamW"]["groups"]["0"]
    assert group | {"lr": 0.5, "betas": [0.9, 0.999], "eps": 1e-8, "num_params": 6} == group
    assert found["precision"]["num_threads"] == torch.get_num_threads()
    assert found["precision"]["float32_matmul"] == torch.get_float32_matmul_precision()


def test_a_schedule_is_one_number_a_step(tmp_path: Path) -> None:
    train(tmp_path, scheduler=lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.5))
    later = [(step, data) for step, data in told(tmp_path) if step]
    assert later == [
        (step, {"optimizers": {"AdamW": {"groups": {"0": {"lr": 0.5 ** (step + 1)}}}}})
        for step in (1, 2, 3)
    ]
    assert whole(tmp_path)["optimizers"]["AdamW"]["schedulers"]["ExponentialLR"]["gamma"] == 0.5


def test_what_changes_is_told_when_it_does(tmp_path: Path) -> None:
    before = torch.get_float32_matmul_precision()

    def at(step: int, model: Any, optimizer: Any) -> None:
        if step == 1:
            model[1].eval()
        if step == 2:
            model[2].p = 0.5
            optimizer.param_groups[0]["weight_decay"] = 0.1
        if step == 3:
            model[1].train()
            torch.set_float32_matmul_precision("high")

    try:
        train(tmp_path, at=at)
    finally:
        torch.set_float32_matmul_precision(before)
    assert [(step, data) for step, data in told(tmp_path) if step] == [
        (1, {"modes": {"1": "eval"}}),
        (2, {"modules": {"2": {"p": 0.5}}}),
        (2, {"optimizers": {"AdamW": {"groups": {"0": {"weight_decay": 0.1}}}}}),
        (3, {"modes": {"1": None}}),
        (3, {"precision": {"float32_matmul": "high"}}),
    ]


def test_evaluation_between_updates_is_no_change(tmp_path: Path) -> None:
    def at(step: int, model: Any, optimizer: Any) -> None:
        model.eval()
        with torch.no_grad():
            model(torch.randn(8, 4))
        model.train()

    train(tmp_path, at=at)
    assert {step for step, _ in told(tmp_path)} == {0}


def test_counters_of_the_program_are_no_setting(tmp_path: Path) -> None:
    def at(step: int, model: Any, optimizer: Any) -> None:
        model.num_calls = step
        model.last_loss = 1.0 / (1 + step)
        model.scale = torch.randn(3)

    train(tmp_path, at=at)
    assert {step for step, _ in told(tmp_path)} == {0}


def test_autocast_and_scaler(tmp_path: Path) -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    with everybit.Guard(model, optimizer, run=tmp_path, replay_every=0):
        for _ in range(3):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = model(torch.ones(2, 4)).float().sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    found = whole(tmp_path)
    assert found["precision"]["autocast_cpu"] == "bfloat16"
    assert found["scaler"]["growth_factor"] == 2.0
    assert {step for step, _ in told(tmp_path)} == {0}


def test_deltas_are_merged_back() -> None:
    states: list[Any] = [
        {"a": {"x": 1, "y": [1, 2]}},
        {"a": {"y": [1, 3]}, "b": 2},
        {"b": {"c": 1}},
    ]
    known: Any = {}
    for state in states:
        known = merged(known, delta_of(known, state))
        assert known == state

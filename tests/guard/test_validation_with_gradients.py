"""Validation without `no_grad` between updates is no part of a step; what gets a gradient is."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import everybit
from everybit.core.link import Link
from everybit.guard.configuration.delta import merged

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Between = Callable[[int, nn.Module], Any]


def train(run: Path, between: Between = lambda *_: None, *, trace: str = "step") -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.25), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with everybit.Guard(
        model, optimizer, run=run, trace=trace, replay_every=0, on_finding="record"
    ):
        for step in range(4):
            beside = between(step, model)
            loss = model(torch.randn(8, 4)).square().mean()
            (loss if beside is None else loss + beside).backward()
            optimizer.step()
            optimizer.zero_grad()
    return model


def validates(step: int, model: nn.Module, batches: int = 3) -> None:
    if step != 2:
        return
    model.eval()
    for number in range(batches):
        model(torch.full((8, 4), float(number)))
    model.train()


def names(run: Path, step: int, link: Link) -> list[str]:
    record = everybit.open_run(run).log().step(step)
    return [name for table in record.tables if table.link is link for name in table.names]


def modes(run: Path) -> Any:
    log = everybit.open_run(run).log()
    told = [each.data for each in log.observations if each.kind == "configuration"]
    return reduce(merged, told, {})["modes"], {
        each.step for each in log.observations if each.kind == "configuration"
    }


@pytest.mark.parametrize("trace", ["step", "module"])
@pytest.mark.parametrize("batches", [1, 70])
def test_a_run_that_validates_with_gradients_is_the_same_run(tmp_path, trace, batches) -> None:
    train(tmp_path / "a", trace=trace)
    train(tmp_path / "b", lambda step, model: validates(step, model, batches), trace=trace)
    verdict = everybit.diff(tmp_path / "a", tmp_path / "b")
    assert verdict.first is None, verdict.first
    assert verdict.stats["last_agreed_step"] == 3
    assert names(tmp_path / "b", 2, Link.BATCH) == ["0"]
    assert modes(tmp_path / "b") == ({"": "train"}, {0})
    if trace == "module":
        assert names(tmp_path / "b", 2, Link.FORWARD) == names(tmp_path / "a", 2, Link.FORWARD)


@pytest.mark.parametrize("trace", ["step", "module"])
def test_a_loss_that_compares_both_modes_has_two_calls(tmp_path, trace) -> None:
    def consistency(_: int, model: nn.Module) -> Any:
        model.eval()
        answer = model(torch.ones(8, 4)).square().mean()
        model.train()
        return answer

    train(tmp_path, consistency, trace=trace)
    assert names(tmp_path, 2, Link.BATCH) == ["0", "#1.0"]
    if trace == "module":
        forward = names(tmp_path, 2, Link.FORWARD)
        assert [name for name in forward if name.startswith("2()")] == ["2()", "2()#1"]
        gradients = names(tmp_path, 2, Link.GRAD)
        assert {"grad 2()", "grad 2()#1"} <= set(gradients)


def test_validation_among_calls_of_a_step_is_taken_out_and_the_rest_numbered(tmp_path) -> None:
    def first(step: int, model: nn.Module) -> Any:
        begun = model(torch.zeros(8, 4)).square().mean()
        validates(step, model)
        return begun

    train(tmp_path, first, trace="module")
    for step in (1, 2):
        assert names(tmp_path, step, Link.BATCH) == ["0", "#1.0"]
        forward = names(tmp_path, step, Link.FORWARD)
        assert forward == ["0()", "1()", "2()", "()", "0()#1", "1()#1", "2()#1", "()#1"]
        traced = [name for name in names(tmp_path, step, Link.GRAD) if "()" in name]
        assert sorted(traced) == sorted(f"grad {name}" for name in forward)


def test_training_in_eval_mode_is_training(tmp_path) -> None:
    def forgotten(_: int, model: nn.Module) -> None:
        model.eval()

    train(tmp_path / "a", forgotten, trace="module")
    assert names(tmp_path / "a", 2, Link.BATCH) == ["0"]
    assert "2()" in names(tmp_path / "a", 2, Link.FORWARD)
    assert modes(tmp_path / "a")[0] == {"": "eval"}
    train(tmp_path / "b", trace="module")
    first = everybit.diff(tmp_path / "b", tmp_path / "a").first
    assert (first.kind, first.where.step) == ("config", 0)
    assert "modes is train in A and eval in B" in first.why


def test_a_model_left_in_eval_mode_after_validation_is_told(tmp_path) -> None:
    def forgets(step: int, model: nn.Module) -> None:
        if step == 2:
            validates(step, model)
            model.eval()

    train(tmp_path / "a")
    train(tmp_path / "b", forgets)
    first = everybit.diff(tmp_path / "a", tmp_path / "b").first
    assert (first.kind, first.where.step) == ("config", 2)
    assert "modes is train in A and eval in B" in first.why


def test_the_numbers_are_as_without_a_guard(tmp_path) -> None:
    watched = train(tmp_path, validates, trace="module")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.25), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        validates(step, model)
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    for one, other in zip(watched.parameters(), model.parameters(), strict=True):
        assert torch.equal(one, other)

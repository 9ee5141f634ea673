"""Loops that do strange things: the same bits under replay and spot checks, and no alarm."""

from __future__ import annotations

import contextlib
import itertools
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import everybit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STEPS = 5
SEEN = [0]
COUNT = 0


class Counter:
    """An object of the program's own, behind an attribute."""

    def __init__(self) -> None:
        self.calls = 0
        self.by_kind: dict[str, list[int]] = {"all": []}


class Stateful(nn.Module):
    """Everything that Python can keep beside tensors, moved by every call and computed with."""

    total = 0

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)
        self.history: list[int] = []
        self.counter = Counter()
        self.mean = torch.zeros(8)
        self.noise = torch.Generator().manual_seed(3)
        self.numbers = np.random.default_rng(4)
        self.draws = random.Random(5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        global COUNT
        COUNT += 1
        SEEN[0] += 1
        Stateful.total += 1
        self.history.append(len(self.history))
        self.counter.calls += 1
        self.counter.by_kind["all"].append(self.counter.calls)
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        told = len(self.history) + self.counter.calls + SEEN[0] + COUNT + Stateful.total
        drawn = torch.randn(4, generator=self.noise) + self.numbers.random() + self.draws.random()
        return self.linear(x + self.mean) * (1 + 1e-3 * told) + 0.01 * drawn


def stateful(watch: Any) -> Any:
    global COUNT
    COUNT = Stateful.total = SEEN[0] = 0
    model = Stateful()
    losses = simple(watch, model, lambda: model(torch.randn(6, 8)).square().mean())
    kept = [COUNT, SEEN[0], Stateful.total, model.counter.calls, *model.counter.by_kind["all"]]
    return [*losses, *kept, *model.history, model.numbers.random(), model.draws.random()], [model]


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        hidden.mul_(2).add_(1)
        outputs = self.last(hidden.relu_() * 0.5)
        outputs -= outputs.mean(0, keepdim=True).detach()
        return outputs


def in_place(watch: Any) -> Any:
    model = InPlace()
    return simple(watch, model, lambda: model(torch.randn(6, 8)).add_(1).square().mean()), [model]


def mixture(watch: Any) -> Any:
    """Other parts are called each time."""
    model = Mixture()
    return simple(watch, model, lambda: model(torch.randn(6, 8)).square().mean()), [model]


class Mixture(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(8, 3)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = self.gate(x).softmax(-1)
        chosen = weights.argmax(-1)
        outputs = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            mine = chosen == number
            if mine.any():
                outputs[mine] = expert(x[mine]) * weights[mine, number : number + 1]
        return outputs


def adversaries(watch: Any) -> Any:
    """Two optimizers, and a penalty on gradients that is differentiated itself."""
    maker = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 8))
    critic = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    makes, criticises = (torch.optim.Adam(each.parameters(), 1e-3) for each in (maker, critic))
    losses = []
    with watch(maker, critic, makes, criticises):
        for _ in range(STEPS):
            made, real = maker(torch.randn(6, 4)), torch.randn(6, 8, requires_grad=True)
            (slope,) = torch.autograd.grad(critic(real).sum(), real, create_graph=True)
            loss = critic(made.detach()).mean() + slope.norm(dim=1).sub(1).square().mean()
            criticises.zero_grad()
            loss.backward()
            criticises.step()
            makes.zero_grad()
            other = F.softplus(-critic(made)).mean()
            other.backward()
            makes.step()
            losses += [loss.item(), other.item()]
    return losses, [maker, critic]


def sharpness(watch: Any) -> Any:
    """Weights are moved between two backward passes of one step, and back."""
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    with watch(model, optimizer):
        for _ in range(STEPS):
            x = torch.randn(6, 8)
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            with torch.no_grad():
                away = [0.05 * p.grad.sign() for p in model.parameters()]
                for parameter, by in zip(model.parameters(), away, strict=True):
                    parameter.add_(by)
            optimizer.zero_grad()
            model(x).square().mean().backward()
            with torch.no_grad():
                for parameter, by in zip(model.parameters(), away, strict=True):
                    parameter.sub_(by)
            optimizer.step()
            losses.append(loss.item())
    return losses, [model]


def simple(watch: Any, model: nn.Module, loss_of: Callable[[], torch.Tensor]) -> list[float]:
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    losses = []
    with watch(model, optimizer):
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = loss_of()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


def run(loop: Any, watch: Any) -> tuple[list[Any], list[torch.Tensor]]:
    torch.manual_seed(0)
    losses, models = loop(watch)
    tensors = [tensor.clone() for model in models for tensor in model.state_dict().values()]
    return losses, [*tensors, torch.rand(())]


@pytest.mark.parametrize(
    "loop", [stateful, in_place, mixture, adversaries, sharpness], ids=lambda f: f.__name__
)
def test_strange_loops_keep_their_bits(loop: Any, tmp_path: Path) -> None:
    losses, tensors = run(loop, lambda *_: contextlib.nullcontext())
    made: list[everybit.Guard] = []

    def watch(*holders: Any) -> everybit.Guard:
        settings = {"replay_every": 1, "spot_checks": True, "on_finding": "record"}
        made.append(everybit.Guard(*holders, run=tmp_path / "run", **settings))
        return made[0]

    again, others = run(loop, watch)
    assert again == losses
    assert all(torch.equal(one, two) for one, two in zip(tensors, others, strict=True))
    assert made[0].findings == ()
    checked = {each.what: each.count for each in made[0].coverage.checked}
    assert checked["calls of a model computed again"] >= STEPS


def far_away() -> float:
    """State that no attribute, class or name in a forward leads to."""
    far_away.calls = getattr(far_away, "calls", 0) + 1  # type: ignore[attr-defined]
    return far_away.calls * 1e-3  # type: ignore[attr-defined]


class Remote(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) + far_away()


def test_what_moves_out_of_reach_is_left_alone_once_it_is_known(tmp_path: Path) -> None:
    model = Remote()
    optimizer = torch.optim.AdamW(model.parameters())
    counts = []
    with everybit.Guard(
        model, optimizer, run=tmp_path / "run", replay_every=1, on_finding="record"
    ) as guard:
        for _ in range(STEPS):
            optimizer.zero_grad()
            model(torch.randn(6, 8)).square().mean().backward()
            optimizer.step()
            counts.append(far_away.calls)  # type: ignore[attr-defined]
    assert [finding.rule for finding in guard.findings] == ["CMP703"]
    steps = [later - one for one, later in itertools.pairwise(counts)]
    assert steps == [1] * (STEPS - 1)
    whys = {each.why for each in guard.coverage.skipped}
    assert "the model does not repeat" in whys

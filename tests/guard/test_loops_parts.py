"""Loops that never call the model itself, call it with other tensors, or read it past a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.guard.loops import everything, seed
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F  # noqa: N812

import everybit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STEPS = 5
FLIP_AT = 3


class Container(nn.Module):
    """Has no call of its own, as many a LightningModule."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Module()
        self.inner.layers = nn.ModuleList([nn.Linear(8, 300), nn.BatchNorm1d(300)])
        self.heads = nn.ModuleDict({"a": nn.Linear(300, 2)})

    def loss(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.inner.layers:
            x = layer(x)
        return self.heads["a"](x).square().mean()


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 300)
        self.last = nn.Linear(300, 2)
        self.register_buffer("shift", torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x).relu()) + self.shift


def flip(tensor: torch.Tensor) -> None:
    tensor.detach().numpy().reshape(-1).view("uint32")[tensor.numel() // 2] ^= 1 << 20


def by_its_parts(model: Container, x: torch.Tensor) -> torch.Tensor:
    return model.loss(x)


def with_its_own_tensors(model: Stack, x: torch.Tensor) -> torch.Tensor:
    return functional_call(model, dict(model.named_parameters()), (x,)).square().mean()


def in_transforms(model: Stack, x: torch.Tensor) -> torch.Tensor:
    def loss(parameters: Any, row: torch.Tensor) -> torch.Tensor:
        return functional_call(model, parameters, (row,)).square().mean()

    def adapted(parameters: Any, row: torch.Tensor) -> torch.Tensor:
        slopes = grad(loss)(parameters, row)
        return loss({name: p - 0.1 * slopes[name] for name, p in parameters.items()}, row)

    return vmap(adapted, in_dims=(None, 0))(dict(model.named_parameters()), x).mean()


def mapped(model: Stack, x: torch.Tensor) -> torch.Tensor:
    return vmap(model)(x).square().mean()


CALLS: dict[str, tuple[type[Any], Callable[..., torch.Tensor]]] = {
    "parts": (Container, by_its_parts),
    "functional_call": (Stack, with_its_own_tensors),
    "transforms": (Stack, in_transforms),
    "vmap": (Stack, mapped),
}


def train(name: str, place: Path | None, hit: str = "") -> tuple[Any, list[Any]]:
    kind, loss_of = CALLS[name]
    seed()
    model = kind()
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []

    def loop() -> None:
        for step in range(STEPS):
            if hit and step == FLIP_AT:
                flip(model.get_parameter(hit) if "shift" not in hit else model.shift)
            loss = loss_of(model, torch.randn(6, 8))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach().clone())

    guard = None
    if place is None:
        loop()
    else:
        guard = everybit.Guard(model, optimizer, run=place, on_finding="heal")
        with guard:
            loop()
    return guard, [*losses, *everything(model, optimizer)]


@pytest.mark.parametrize("name", CALLS)
def test_a_clean_run_is_clean_and_the_same(name: str, tmp_path: Path) -> None:
    guard, guarded = train(name, tmp_path / "run")
    _, bare = train(name, None)
    assert guard.verdict.ok, guard.verdict
    assert all(map(torch.equal, guarded, bare))


@pytest.mark.parametrize(
    ("name", "hit"),
    [
        ("parts", "inner.layers.0.weight"),
        ("parts", "heads.a.weight"),
        ("functional_call", "first.weight"),
        ("transforms", "last.weight"),
        ("transforms", "shift"),
        ("vmap", "first.weight"),
    ],
)
def test_a_flip_is_healed_before_its_use(
    name: str, hit: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("ERROR", "everybit")
    guard, guarded = train(name, tmp_path / "run", hit)
    _, bare = train(name, None)
    (finding,) = guard.findings
    assert (finding.where.parameter, finding.where.step) == (hit, FLIP_AT)
    assert finding.evidence["healed"]
    assert not finding.evidence["tainted"]
    assert all(map(torch.equal, guarded, bare))


def test_an_average_is_not_taken_of_damage(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("ERROR", "everybit")

    def average(hit: bool) -> tuple[Any, list[torch.Tensor]]:
        seed()
        guard = everybit.Guard(run=tmp_path / str(hit), on_finding="heal")
        with guard:
            model = Stack()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            slow = torch.optim.swa_utils.AveragedModel(model)
            for step in range(STEPS):
                optimizer.zero_grad()
                model(torch.randn(6, 8)).square().mean().backward()
                optimizer.step()
                if hit and step == FLIP_AT - 1:
                    flip(model.first.weight)
                slow.update_parameters(model)
        return guard, everything(model, slow)

    clean, right = average(hit=False)
    assert clean.verdict.ok
    guard, healed = average(hit=True)
    (finding,) = guard.findings
    assert (finding.where.parameter, finding.where.step) == ("first.weight", FLIP_AT)
    assert all(map(torch.equal, healed, right))


def test_sparse_gradients_are_told_and_are_no_promise(tmp_path: Path) -> None:
    seed()
    model = nn.EmbeddingBag(50, 4, sparse=True)
    optimizer = torch.optim.SparseAdam(model.parameters())
    with everybit.Guard(model, optimizer, run=tmp_path / "run") as guard:
        for _ in range(STEPS):
            optimizer.zero_grad()
            F.mse_loss(model(torch.randint(50, (6, 3))), torch.ones(6, 4)).backward()
            optimizer.step()
    assert guard.verdict.ok
    told = [s for s in guard.verdict.coverage.skipped if s.what == "gradient of weight at rest"]
    assert [s.promised for s in told] == [False]
    assert "sparse" in told[0].why


def test_gradients_that_never_rest_are_told(tmp_path: Path) -> None:
    """The update runs within the backward pass: nothing lies between the two."""
    seed()
    model = nn.Linear(8, 2)
    optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}

    def step(parameter: torch.Tensor) -> None:
        optimizers[parameter].step()
        parameter.grad = None

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    with everybit.Guard(model, *optimizers.values(), run=tmp_path / "run") as guard:
        for _ in range(3):
            model(torch.randn(6, 8)).square().mean().backward()
    assert guard.verdict.ok
    (told,) = [s for s in guard.verdict.coverage.skipped if s.what == "gradients at rest"]
    assert "within backward" in told.why


def test_gradients_are_tested_when_a_closure_returns(tmp_path: Path) -> None:
    """As Lightning does with every optimizer, by keyword; and L-BFGS several times a step."""

    def fit(kind: str, *, hit: bool) -> tuple[everybit.Guard, list[torch.Tensor]]:
        seed()
        model = nn.Linear(8, 2)
        optimizer: torch.optim.Optimizer = (
            torch.optim.LBFGS(model.parameters(), max_iter=3)
            if kind == "lbfgs"
            else torch.optim.AdamW(model.parameters())
        )
        x = torch.randn(6, 8)
        calls = 0

        def closure() -> torch.Tensor:
            nonlocal calls
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            calls += 1
            if hit and calls == 4:
                flip(model.weight.grad)
            return loss

        with everybit.Guard(
            model, optimizer, run=tmp_path / f"{kind}-{hit}", on_finding="heal"
        ) as guard:
            for _ in range(5):
                if kind == "lbfgs":
                    optimizer.step(closure)
                else:
                    optimizer.step(closure=closure)
        return guard, everything(model)

    for kind in ("lbfgs", "adamw"):
        clean, right = fit(kind, hit=False)
        assert clean.verdict.ok
        guard, healed = fit(kind, hit=True)
        assert [(f.rule, f.where.parameter) for f in guard.findings] == [("MEM603", "weight")]
        assert guard.findings[0].evidence["healed"]
        assert all(map(torch.equal, healed, right))

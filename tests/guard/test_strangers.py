"""Other tensors in the memory of parameters and gradients, whose counters nobody knew of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.guard.watched import flip
from torch import nn

import everybit
from everybit.guard.strangers import find_strangers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STEPS = 6


def into_one(tensors: list[torch.Tensor], put: Callable[[int, torch.Tensor], None]) -> torch.Tensor:
    """Lay tensors into one flat buffer, each as a piece with a counter of its own."""
    flat = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
    start = 0
    for index, tensor in enumerate(tensors):
        put(index, flat.data[start : start + tensor.numel()].view_as(tensor))
        start += tensor.numel()
    return flat


def flat_parameters(model: nn.Module) -> torch.Tensor:
    def put(index: int, piece: torch.Tensor) -> None:
        list(model.parameters())[index].data = piece

    return into_one(list(model.parameters()), put)


def flat_gradients(model: nn.Module) -> torch.Tensor:
    def put(index: int, piece: torch.Tensor) -> None:
        list(model.parameters())[index].grad = piece.zero_()

    return into_one(list(model.parameters()), put)


def run(
    tmp_path: Path | None, lay: Callable[[nn.Module], torch.Tensor], damage: bool
) -> tuple[Any, list[torch.Tensor]]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.Linear(64, 30))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    flat = lay(model)
    guard = None
    if tmp_path is not None:
        guard = everybit.Guard(model, optimizer, run=tmp_path, on_finding="heal")
        guard.__enter__()
    for step in range(STEPS):
        model(torch.randn(4, 16)).square().mean().backward()
        if step != 4:
            flat.mul_(0.5)  # no counter of a parameter or gradient moves
        elif damage:
            flip(model[1].bias if lay is flat_parameters else model[1].bias.grad, 3, 20)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    if guard is not None:
        guard.__exit__(None, None, None)
    return guard, [p.detach().clone() for p in model.parameters()]


@pytest.mark.parametrize("lay", [flat_parameters, flat_gradients])
def test_writes_through_a_flat_buffer_are_no_damage(
    lay: Callable[[nn.Module], torch.Tensor], tmp_path: Path
) -> None:
    _, wanted = run(None, lay, damage=False)
    guard, clean = run(tmp_path / "clean", lay, damage=False)
    assert guard.findings == ()
    assert guard.verdict.ok
    assert all(map(torch.equal, clean, wanted))
    guard, healed = run(tmp_path / "flip", lay, damage=True)
    (finding,) = guard.findings
    assert (finding.where.step, finding.where.parameter) == (4, "1.bias")
    assert finding.certainty == "proof"
    assert finding.evidence["healed"]
    assert all(map(torch.equal, healed, wanted))


def test_an_alias_of_a_gradient_is_remembered(tmp_path: Path) -> None:
    """Taken once, and written through at every step."""
    torch.manual_seed(0)
    model = nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    aliases: list[torch.Tensor] = []
    with everybit.Guard(model, optimizer, run=tmp_path) as guard:
        for step in range(STEPS):
            model(torch.randn(4, 64)).square().mean().backward()
            aliases = aliases or [p.grad.data for p in model.parameters()]
            if step != 4:
                torch._foreach_mul_(aliases, 0.5)
            else:
                flip(model.weight.grad, 5, 20)
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
    assert [(f.where.step, f.where.elements) for f in guard.findings] == [(4, (5,))]
    assert guard.findings[0].severity == "error"


def test_a_stranger_that_was_not_known_is_a_doubt_once(tmp_path: Path) -> None:
    """It fills the same memory exactly, and was there before the Guard: nothing told of it."""
    model = nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    other = model.weight.data
    with everybit.Guard(model, optimizer, run=tmp_path, on_finding="heal") as guard:
        for _ in range(STEPS):
            model(torch.randn(4, 64)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            other.mul_(0.5)
            right = other.clone()
    (finding,) = guard.findings
    assert (finding.severity, finding.certainty) == ("warning", "strong")
    assert "same memory" in finding.message
    assert not finding.evidence["healed"]
    assert torch.equal(model.weight, right)


def test_gradients_that_share_memory_heal_together(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with everybit.Guard(model, optimizer, run=tmp_path, on_finding="heal") as guard:
        model(torch.randn(4, 64)).square().mean().backward()
        model[1].weight.grad = model[0].weight.grad.detach()
        model[1].bias.sum().backward()
        right = model[0].weight.grad.clone()
        flip(model[1].weight.grad, 70, 20)
        optimizer.step()
    assert torch.equal(model[0].weight.grad, right)
    assert [f.where.elements for f in guard.findings] == [(70,)]
    assert guard.verdict.coverage.skipped == () or not any(
        item.what == "checks" for item in guard.verdict.coverage.skipped
    )


def test_what_is_a_stranger() -> None:
    weight = nn.Parameter(torch.zeros(8, 8))
    version = weight._version
    kept = [weight.detach(), weight.view(-1), weight[2], torch.zeros(64), weight.detach()[1:]]
    assert list(find_strangers([weight])) == []
    alias = weight.data
    piece = alias[3:5]
    found = {id(stranger) for _, stranger in find_strangers([weight])}
    assert found == {id(alias), id(piece)}
    assert weight._version == version
    assert {id(stranger) for _, stranger in find_strangers([weight[4]])} == {id(alias), id(piece)}
    assert next(iter(find_strangers([weight[5]])))[1] is alias
    assert len(kept) == 5


def test_guards_left_in_any_order_leave_nothing_behind(tmp_path: Path) -> None:
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    holders = (torch, torch.autograd, torch.Tensor, nn.Module, torch.optim.Optimizer)
    before = [dict(vars(holder)) for holder in holders]
    first = everybit.Guard(model, optimizer, run=tmp_path / "first")
    second = everybit.Guard(model, optimizer, run=tmp_path / "second")
    for act in (first.__enter__, second.__enter__, first.__exit__, second.__exit__):
        act(*(() if act.__name__ == "__enter__" else (None, None, None)))
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert [dict(vars(holder)) for holder in holders] == before
    assert "_compiled_call_impl" not in vars(model)
    assert (first.step, second.step) == (2, 2)

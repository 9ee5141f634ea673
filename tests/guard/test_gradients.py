"""Gradients at rest: every flip between backward and the update is caught; clipping is not."""

from __future__ import annotations

import copy
import threading
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.guard.watched import bits_of, build, flip, loss_of, train_step
from torch import nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

import everybit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def names(model: nn.Module) -> list[str]:
    return [name for name, _ in model.named_parameters()]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_flip_at_each_bit_is_caught_before_the_update_and_healed(
    dtype: torch.dtype, tmp_path: Path
) -> None:
    model, optimizer = build(dtype)
    twin, twin_optimizer = build(dtype)
    width = 8 * torch.empty(0, dtype=dtype).element_size()
    with everybit.Guard(model, optimizer, run=tmp_path, on_finding="heal") as guard:
        for step in range(width):
            torch.manual_seed(step)
            loss_of(model).backward()
            for parameter in model.parameters():
                element = (7919 * step) % parameter.numel()
                flip(parameter.grad, element, step)
            found = len(guard.findings)
            optimizer.step()
            optimizer.zero_grad()
            told = guard.findings[found:]
            assert [f.where.parameter for f in told] == names(model)
            for finding, parameter in zip(told, model.parameters(), strict=True):
                assert finding.rule == "MEM603"
                assert finding.where.step == step
                assert finding.where.link == "grad"
                assert finding.where.elements == ((7919 * step) % parameter.numel(),)
                assert finding.evidence["changes"][0]["bits"] == [step]
                assert finding.evidence["healed"]
                assert not finding.evidence["tainted"]
    for step in range(width):
        torch.manual_seed(step)
        train_step(twin, twin_optimizer)
    assert bits_of(model, optimizer) == bits_of(twin, twin_optimizer)


@pytest.mark.parametrize("clip", [clip_grad_norm_, clip_grad_value_])
def test_before_and_behind_clipping(clip: Callable[..., Any], tmp_path: Path) -> None:
    """The clipping function was imported before the Guard came: it is known all the same."""
    model, optimizer = build()
    clean = copy.deepcopy(model)
    clean_optimizer = torch.optim.AdamW(clean.parameters())

    def step(net: nn.Module, adam: Any, before: bool, behind: bool) -> None:
        torch.manual_seed(1)
        loss_of(net).backward()
        if before:
            flip(net[3].weight.grad, 1234, 30)
        clip(net.parameters(), 0.01)
        if behind:
            flip(net[3].weight.grad, 4321, 30)
        adam.step()
        adam.zero_grad()

    with everybit.Guard(model, optimizer, run=tmp_path, on_finding="heal") as guard:
        step(model, optimizer, True, False)
        step(model, optimizer, False, True)
        step(model, optimizer, False, False)
        step(model, optimizer, True, True)
    for _ in range(4):
        step(clean, clean_optimizer, False, False)
    places = [(f.rule, f.where.step, f.where.elements) for f in guard.findings]
    assert places == [
        ("MEM603", 0, (1234,)),
        ("MEM603", 1, (4321,)),
        ("MEM603", 3, (1234,)),
        ("MEM603", 3, (4321,)),
    ]
    assert bits_of(model, optimizer) == bits_of(clean, clean_optimizer)


def test_within_accumulation(tmp_path: Path) -> None:
    model, optimizer = build()
    with everybit.Guard(model, optimizer, run=tmp_path, on_finding="heal") as guard:
        for _ in range(2):
            for part in range(3):
                loss_of(model).backward()
                if part == 1:
                    flip(model[0].weight.grad, 5, 22)
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
    places = [(f.rule, f.where.step, f.where.elements) for f in guard.findings]
    assert places == [("MEM603", 0, (5,)), ("MEM603", 1, (5,))]
    assert all(f.evidence["healed"] for f in guard.findings)


def test_many_words_within_a_row_heal_and_wider_damage_is_placed(tmp_path: Path) -> None:
    model, optimizer = build()
    with everybit.Guard(model, optimizer, run=tmp_path, on_finding="heal") as guard:
        train_step(model, optimizer)
        loss_of(model).backward()
        big = model[3].weight.grad
        assert big.numel() * 4 > 255 * 1024
        right = big.clone()
        big.numpy().reshape(-1)[1010:1100] = 0  # within one row of 502 elements
        optimizer.step()
        assert torch.equal(big, right)
        optimizer.zero_grad()
        loss_of(model).backward()
        model[3].weight.grad.numpy().reshape(-1)[:100000] = 0
        optimizer.step()
    healed, wide = guard.findings
    assert healed.evidence["healed"]
    assert healed.where.element_ranges == ((1010, 1100),)
    assert not wide.evidence["healed"]
    start, end = wide.where.element_ranges[0][0], wide.where.element_ranges[-1][1]
    assert start == 0
    assert end >= 100000


def clip_by_hand(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.grad.clamp_(-0.1, 0.1)


def clip_through_data(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.grad.data.mul_(0.5)


def add_noise(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.grad += 1e-3 * torch.randn_like(parameter.grad)


def exchange(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.grad = parameter.grad.sign()


def forget_one(model: nn.Module) -> None:
    model[0].weight.grad = None


def set_data(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.grad.data = parameter.grad.data.clone().mul_(2)


def zero_part(model: nn.Module) -> None:
    with torch.no_grad():
        model[3].weight.grad[:10] = 0


def into_one_buffer(model: nn.Module) -> None:
    parts = [p.grad for p in model.parameters()]
    flat = torch.cat([g.reshape(-1) for g in parts]) / 2
    for part, value in zip(parts, flat.split([g.numel() for g in parts]), strict=True):
        part.copy_(value.view_as(part))


@pytest.mark.parametrize(
    "rewrite",
    [
        clip_by_hand,
        clip_through_data,
        add_noise,
        exchange,
        forget_one,
        set_data,
        zero_part,
        into_one_buffer,
    ],
)
def test_writers_of_gradients_are_no_damage(
    rewrite: Callable[[nn.Module], None], tmp_path: Path
) -> None:
    """And with the writer at work, real damage in a step without it is still seen."""
    model, optimizer = build()
    with everybit.Guard(model, optimizer, run=tmp_path) as guard:
        for step in range(6):
            loss_of(model).backward()
            if step % 2 == 0:
                rewrite(model)
            if step == 3:
                flip(model[3].weight.grad, 99, 12)
            optimizer.step()
            optimizer.zero_grad(set_to_none=step % 3 == 0)
    assert [(f.rule, f.where.step) for f in guard.findings] == [("MEM603", 3)]
    assert guard.verdict.status == "findings"


def test_a_scaler_that_unscales(tmp_path: Path) -> None:
    """Unscaling rewrites every gradient without moving a counter, by hand or within `step`."""
    model, optimizer = build()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
    with everybit.Guard(model, optimizer, run=tmp_path) as guard:
        for step in range(6):
            scaler.scale(loss_of(model)).backward()
            if step == 2:
                flip(model[3].weight.grad, 7, 3)
            if step % 2:
                scaler.unscale_(optimizer)
                clip_grad_norm_(model.parameters(), 1.0)
                if step == 3:
                    flip(model[3].weight.grad, 8, 3)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    places = [(f.rule, f.where.step, f.where.elements) for f in guard.findings]
    assert places == [("MEM603", 2, (7,)), ("MEM603", 3, (8,))]


def test_two_optimizers_use_theirs_each_at_its_time(tmp_path: Path) -> None:
    torch.manual_seed(0)
    left, right = nn.Linear(64, 64), nn.Linear(64, 64)
    first = torch.optim.SGD(left.parameters(), lr=0.1)
    second = torch.optim.Adam(right.parameters())
    with everybit.Guard(left, right, first, second, run=tmp_path) as guard:
        for turn in range(4):
            right(left(torch.randn(8, 64))).square().mean().backward()
            first.step()
            if turn == 2:
                flip(left.weight.grad, 3, 9)  # already used: nobody's business
                flip(right.weight.grad, 3, 9)
            second.step()
            first.zero_grad()
            second.zero_grad()
    places = [(f.rule, f.where.step, f.where.parameter, f.where.module) for f in guard.findings]
    assert places == [("MEM603", 5, "weight", "Linear")]


def test_lbfgs_and_sparse_gradients(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Linear(16, 4)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
    x = torch.randn(32, 16)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    with everybit.Guard(model, optimizer, run=tmp_path / "a") as guard:
        for _ in range(4):
            optimizer.step(closure)
    assert guard.verdict.ok, guard.verdict

    table = nn.Embedding(100, 16, sparse=True)
    adam = torch.optim.SparseAdam(table.parameters())
    with everybit.Guard(table, adam, run=tmp_path / "b") as guard:
        for _ in range(4):
            table(torch.randint(0, 100, (8,))).square().mean().backward()
            adam.step()
            adam.zero_grad()
    assert not guard.findings
    assert any("gradient of weight" in item.what for item in guard.coverage.skipped)


def test_nothing_is_kept_alive_past_the_update(tmp_path: Path) -> None:
    import weakref

    model, optimizer = build()
    with everybit.Guard(model, optimizer, run=tmp_path):
        loss_of(model).backward()
        gradient = weakref.ref(model[3].weight.grad)
        optimizer.step()
        optimizer.zero_grad()
        assert gradient() is None


def test_the_record_holds_the_same_digests_with_and_without_marks(tmp_path: Path) -> None:
    from everybit.core.link import Link
    from everybit.ledger import open_run
    from everybit.probe.digest import memory_words

    model, optimizer = build()
    with everybit.Guard(model, optimizer, run=tmp_path):
        loss_of(model).backward()
        wanted = memory_words([p.grad for p in model.parameters()])
        optimizer.step()
    (record,) = open_run(tmp_path).log().steps()
    (table,) = [t for t in record.tables if t.link is Link.GRAD]
    assert table.names == tuple(names(model))
    assert list(table.words()) == wanted


def test_a_scaler_of_another_library(tmp_path: Path) -> None:
    """It calls torch's kernel itself, which moves no version counter."""
    model, optimizer = build()
    with everybit.Guard(model, optimizer, run=tmp_path) as guard:
        for step in range(5):
            (loss_of(model) * 8).backward()
            if step == 2:
                flip(model[3].weight.grad, 7, 3)
            torch._amp_foreach_non_finite_check_and_unscale_(
                [p.grad for p in model.parameters()], torch.zeros(1), torch.tensor(0.125)
            )
            if step == 3:
                flip(model[3].weight.grad, 8, 3)
            optimizer.step()
            optimizer.zero_grad()
    places = [(f.rule, f.where.step, f.where.elements) for f in guard.findings]
    assert places == [("MEM603", 2, (7,)), ("MEM603", 3, (8,))]


def test_a_loop_without_an_optimizer_keeps_so_many_losses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everybit.guard.record.MAX_LOSSES", 8)
    model = nn.Linear(4, 1)
    with everybit.Guard(model, run=tmp_path) as guard:
        for _ in range(20):
            model(torch.randn(2, 4)).square().mean().backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.1 * parameter.grad
            model.zero_grad()
        assert len(guard._checks.record._losses) == 8
    assert not guard.findings
    assert any(item.what == "digest of loss" for item in guard.coverage.skipped), guard.coverage


def test_a_backward_pass_in_another_thread(tmp_path: Path) -> None:
    """It writes gradients while this thread begins its own: those are not tested then."""
    model, other = nn.Linear(64, 64), nn.Linear(8, 8)
    optimizer = torch.optim.SGD([*model.parameters(), *other.parameters()], lr=0.1)
    model(torch.randn(2, 64)).sum().backward()

    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            # As a kernel that is half done: bytes are written, the counter has not moved yet.
            flip(model.weight.grad, 5, 20)
            thread = threading.Thread(target=lambda: other(torch.ones(1, 8)).sum().backward())
            thread.start()
            thread.join()
            flip(model.weight.grad, 5, 20)
            return gradient

    with everybit.Guard(model, other, optimizer, run=tmp_path, on_finding="heal") as guard:
        for _ in range(3):
            model(Slow.apply(torch.randn(2, 64, requires_grad=True))).sum().backward()
        optimizer.step()
    assert guard.findings == ()
    assert any("another thread" in item.why for item in guard.coverage.skipped)


@pytest.mark.parametrize("rewrite", [clip_by_hand, clip_through_data, exchange])
def test_the_record_holds_what_the_update_uses(
    rewrite: Callable[[nn.Module], None], tmp_path: Path
) -> None:
    """Also where something rewrote a gradient behind its mark."""
    from everybit.core.link import Link
    from everybit.ledger import open_run
    from everybit.probe.digest import memory_words

    model, optimizer = build()
    with everybit.Guard(model, optimizer, run=tmp_path):
        loss_of(model).backward()
        rewrite(model)
        wanted = memory_words([p.grad for p in model.parameters()])
        optimizer.step()
    (record,) = open_run(tmp_path).log().steps()
    (table,) = [t for t in record.tables if t.link is Link.GRAD]
    assert dict(table) == dict(zip(names(model), wanted, strict=True))

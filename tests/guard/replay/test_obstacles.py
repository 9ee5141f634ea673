"""Calls that are not repeated: each says why, and nothing is found or changed."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import everybit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Unseen:
    """An object that a call may change."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x


@dataclass
class Batch:
    x: torch.Tensor
    ids: list[int]


class Takes(nn.Module):
    """Takes its input in whatever it comes in."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(4, 2)
        self.register_buffer("table", torch.zeros(1 << 19))
        self.kept = torch.zeros(2)
        self.large = self.writes = self.appends = False

    def forward(self, x: Any) -> torch.Tensor:
        if self.large:
            self.table += 1
        if self.writes:
            self.kept.add_(1)
        if self.appends:
            x.append(None)
        if isinstance(x, list):
            x = x[0]
        return self.last((x if isinstance(x, torch.Tensor) else x.x) + 0)  # Kept: the sum.


class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def x() -> torch.Tensor:
    return torch.randn(8, 4)


def plain(model: Takes) -> torch.Tensor:
    return model(x())


def with_hook(model: Takes) -> torch.Tensor:
    handle = model.last.register_forward_hook(lambda *_: None)
    try:
        return model(x())
    finally:
        handle.remove()


def with_global_hook(model: Takes) -> torch.Tensor:
    handle = nn.modules.module.register_module_forward_hook(lambda *_: None)
    try:
        return model(x())
    finally:
        handle.remove()


def with_object(model: Takes) -> torch.Tensor:
    return model(Unseen(x()))


def with_dataclass(model: Takes) -> torch.Tensor:
    return model(Batch(x(), [1, 2]))


def appended(model: Takes) -> torch.Tensor:
    model.appends = True
    return model([x()])


def written_buffer(model: Takes) -> torch.Tensor:
    model.large = True
    return model(x())


def written_attribute(model: Takes) -> torch.Tensor:
    model.writes = True
    return model(x())


def written_input(model: Takes) -> torch.Tensor:
    data = x()
    output = model(data)
    data.zero_()
    return output.abs()


def written_weight(model: Takes) -> torch.Tensor:
    output = model(x())
    with torch.no_grad():
        model.last.bias.add_(1)
    return output


def packed(model: Takes) -> torch.Tensor:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        return model(x())


def in_mode(model: Takes) -> torch.Tensor:
    with Mode():
        return model(x())


def within_autocast(model: Takes) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        model(x()).float().square().mean().backward()
    return next(model.parameters()).sum() * 0


def other_threads(model: Takes) -> torch.Tensor:
    torch.set_num_threads(2)
    output = model(x())
    torch.set_num_threads(1)
    return output


def in_a_thread(model: Takes) -> torch.Tensor:
    found: list[torch.Tensor] = []
    thread = threading.Thread(target=lambda: found.append(model(x())))
    thread.start()
    thread.join()
    return found[0]


CASES: dict[str, tuple[Callable[[Takes], torch.Tensor], str]] = {
    "plain": (plain, ""),
    "dataclass": (with_dataclass, ""),
    "thread": (in_a_thread, ""),
    "hook": (with_hook, "hooks of the program on a Linear"),
    "global hook": (with_global_hook, "hooks of the program on all modules"),
    "object": (with_object, "is a Unseen, which the call may change"),
    "appended": (appended, "changes what it is given"),
    "large buffer": (written_buffer, "the buffer table, which is too large to copy"),
    "attribute": (written_attribute, "writes into the tensor Takes.kept"),
    "input": (written_input, "an input was written to"),
    "weight": (written_weight, "last.bias was written to"),
    "packed": (packed, "packed by hooks"),
    "mode": (in_mode, "dispatch mode"),
    "autocast": (within_autocast, "backward runs within autocast"),
    "threads": (other_threads, "the number of threads was 2"),
}


@pytest.mark.parametrize("case", CASES)
def test_says_why(case: str, tmp_path: Path) -> None:
    call, why = CASES[case]
    torch.manual_seed(0)
    model = Takes()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    options: dict[str, Any] = {"replay_every": 1, "on_finding": "record"}
    with everybit.Guard(model, optimizer, run=tmp_path / "run", **options) as guard:
        for _ in range(3):
            optimizer.zero_grad()
            call(model).square().mean().backward()
            optimizer.step()
    assert guard.findings == ()
    coverage = guard.verdict.coverage
    whys = [each.why for each in coverage.skipped if each.what.endswith("calls of a model again")]
    again = [each for each in coverage.checked if each.what.startswith("calls of a model")]
    if why:
        assert any(why in each for each in whys), whys
        assert not again
        assert not guard.verdict.ok  # It was asked for, and no call could be repeated.
    else:
        assert not whys
        assert again[0].count == 3
    assert not guard.verdict.coverage.skipped or "fault" not in str(whys)


class Follower(nn.Module):
    """Keeps an average of its own weights, in its forward, past their version counters."""

    def __init__(self, *, exchange: bool) -> None:
        super().__init__()
        self.fast = nn.Linear(4, 4)
        self.slow = nn.Linear(4, 4).requires_grad_(False)
        self.exchange = exchange

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for slow, fast in zip(self.slow.parameters(), self.fast.parameters(), strict=True):
            if self.exchange:
                slow.data = slow.data * 0.9 + fast.data * 0.1
            else:
                slow.data.mul_(0.9).add_(fast.data, alpha=0.1)
        return self.fast(x) - self.slow(x)


@pytest.mark.parametrize("exchange", [False, True])
@pytest.mark.parametrize("preflight", [False, True])
def test_weights_that_forward_writes_past_torch_are_left_alone(
    exchange: bool, preflight: bool, tmp_path: Path
) -> None:
    def trained(watch: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = Follower(exchange=exchange)
        optimizer = torch.optim.SGD(model.fast.parameters(), lr=0.1)
        with ExitStack() as stack:
            if watch:
                stack.enter_context(
                    everybit.Guard(
                        model,
                        optimizer,
                        run=tmp_path / "run",
                        replay_every=1,
                        preflight=preflight,
                        on_finding="record",
                    )
                )
            for _ in range(3):
                optimizer.zero_grad()
                model(torch.randn(8, 4)).square().mean().backward()
                optimizer.step()
        return [p.detach().clone() for p in model.parameters()]

    for one, other in zip(trained(watch=False), trained(watch=True), strict=True):
        assert torch.equal(one, other)

"""A compiled function that runs backward by itself: the Guard is not compiled along."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from tests.guard.watched import bits_of, build, loss_of
from torch._dynamo.utils import counters

import everybit

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch.compiler.reset()
    counters.clear()


def run(tmp_path: Path | None) -> tuple[everybit.Guard | None, list[bytes], int]:
    torch.compiler.reset()
    counters.clear()
    model, optimizer = build(wide=300)

    @torch.compile(backend="eager")
    def compute() -> torch.Tensor:
        loss = loss_of(model)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        return loss.detach()

    guard = everybit.Guard(model, optimizer, run=tmp_path) if tmp_path else None
    if guard is not None:
        guard.__enter__()
    for _ in range(3):
        compute()
        optimizer.step()
        optimizer.zero_grad()
    if guard is not None:
        guard.__exit__(None, None, None)
    return guard, bits_of(model, optimizer), counters["frames"]["ok"]


@pytest.mark.filterwarnings("ignore")
def test_backward_in_a_compiled_function(tmp_path: Path) -> None:
    _, wanted, num_frames = run(None)
    guard, bits, num_guarded = run(tmp_path)
    assert bits == wanted
    assert guard is not None
    assert guard.findings == ()
    assert not any("fault" in item.why for item in guard.coverage.skipped), guard.coverage
    assert guard.step == 3
    # A handful of small functions of other libraries; compiled with the Guard it was hundreds.
    assert num_guarded <= num_frames + 20

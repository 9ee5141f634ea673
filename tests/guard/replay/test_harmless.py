"""A/A: replaying every step changes no bit of the run, and finds nothing."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.guard.loops import LOOPS
from tests.guard.replay.loops import REPLAYED
from tests.guard.test_same_numbers import same

import everybit

if TYPE_CHECKING:
    from pathlib import Path

#: Loops some of whose calls cannot be repeated: part of the reason, and whether any other is.
SKIPPED = {
    "gpt_checkpointed_reentrant": ("reentrant form", True),
    "penalty": ("torch.autograd.grad", True),
    "two_optimizers": ("no backward pass came", True),
    "functional": ("torch.func", True),
    "compiled": ("compiled", False),
    "compiled_late": ("compiled", False),
    "compiled_in_place": ("compiled", False),
    "written_inputs": ("writes into an input", False),
}


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
    torch.compiler.reset()


@pytest.mark.parametrize("name", [*REPLAYED, *LOOPS])
def test_replaying_every_step_changes_nothing(name: str, tmp_path: Path) -> None:
    loop = {**LOOPS, **REPLAYED}[name]
    losses, tensors = loop(lambda *_: nullcontext())
    torch.compiler.reset()
    guards: list[everybit.Guard] = []

    def watch(*things: Any) -> everybit.Guard:
        run = tmp_path / str(len(guards))
        guards.append(everybit.Guard(*things, run=run, replay_every=1, on_finding="record"))
        return guards[-1]

    guarded_losses, guarded_tensors = loop(watch)
    assert guarded_losses == losses
    assert same(guarded_tensors, tensors)
    guard = guards[0]
    assert guard.findings == ()
    coverage = guard.verdict.coverage
    again = [item.count for item in coverage.checked if item.what.startswith("calls of a model")]
    whys = [item.why for item in coverage.skipped if item.what.endswith("calls of a model again")]
    why, repeated = SKIPPED.get(name, ("", True))
    assert bool(again) == repeated, coverage
    assert any(why in each for each in whys) if why else not whys, coverage
    assert not any("fault of its own" in each for each in whys)

"""The A/A test: a run under a Guard gives the bits of the run without it, and no finding."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.guard.loops import LOOPS

import everybit

if TYPE_CHECKING:
    from pathlib import Path


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(
        x.dtype == y.dtype
        and x.contiguous().view(torch.uint8).equal(y.contiguous().view(torch.uint8))
        if x.dim()
        else x.reshape(1).view(torch.uint8).equal(y.reshape(1).view(torch.uint8))
        for x, y in zip(a, b, strict=True)
    )


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Any:
    yield
    torch.compiler.reset()


@pytest.mark.parametrize(
    ("found", "policy"), [(False, "heal"), (True, "warn")], ids=["given-heal", "found-warn"]
)
@pytest.mark.parametrize("name", LOOPS)
def test_same_bits_and_no_finding(name: str, found: bool, policy: str, tmp_path: Path) -> None:
    losses, tensors = LOOPS[name](lambda *_: nullcontext())
    torch.compiler.reset()
    guards = []

    def watch(*things: Any) -> everybit.Guard:
        guard = everybit.Guard(
            *things, run=tmp_path / "run", on_finding=policy, shadow=policy == "heal"
        )
        guards.append(guard)
        return guard

    if found:
        with everybit.Guard(run=tmp_path / "run", on_finding=policy) as guard:
            guards.append(guard)
            guarded_losses, guarded_tensors = LOOPS[name](lambda *_: nullcontext())
    else:
        guarded_losses, guarded_tensors = LOOPS[name](watch)
    (guard,) = guards
    assert guarded_losses == losses
    assert same(guarded_tensors, tensors)
    assert guard.findings == ()
    assert guard.verdict.ok, guard.verdict.to_json()["coverage"]
    log = everybit.open_run(tmp_path / "run").log()
    assert log.num_steps == guard.step > 0
    assert len(list(log.steps())) == guard.step

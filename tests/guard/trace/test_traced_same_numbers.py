"""A/A under tracing: the bits of the run without it, whatever the loop does, and no fault."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.guard.loops import LOOPS
from tests.guard.test_same_numbers import same

import everybit

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Any:
    yield
    torch.compiler.reset()


#: A kind of loop each is enough by operation: it is the same mode that spot checks enter.
BY_OPERATION = ["plain", "cnn", "amp", "accumulation", "closure", "compiled"]
CASES = [*((name, "module") for name in LOOPS), *((name, "op") for name in BY_OPERATION)]


@pytest.mark.parametrize(("name", "level"), CASES)
def test_same_bits(name: str, level: str, tmp_path: Path) -> None:
    losses, tensors = LOOPS[name](lambda *_: nullcontext())
    torch.compiler.reset()
    with everybit.Guard(run=tmp_path / "run", trace=level) as guard:
        traced_losses, traced_tensors = LOOPS[name](lambda *_: nullcontext())
    assert traced_losses == losses
    assert same(traced_tensors, tensors)
    assert guard.findings == ()
    assert guard.verdict.ok, guard.verdict.to_json()["coverage"]
    run = everybit.open_run(tmp_path / "run")
    assert run.damage == ()
    log = run.log()
    assert len(list(log.steps())) == guard.step > 0
    for record in log.steps():
        for table in record.tables:
            assert len(set(table.names)) == len(table.names)

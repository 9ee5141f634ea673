"""What the tests of tracing share: a short guarded run, and its tables by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

import everybit
from everybit.core.link import Link
from everybit.core.trace_name import parse_trace_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from everybit.core.observation import StepRecord


def trace(
    folder: Path,
    model: nn.Module,
    loss_of: Callable[[nn.Module], torch.Tensor],
    *,
    steps: int = 1,
    level: str = "module",
    watched: tuple[Any, ...] = (),
    **settings: Any,
) -> tuple[list[StepRecord], everybit.Guard]:
    """Train a model for a few steps under tracing; return the record and the Guard."""
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.01)
    with everybit.Guard(
        model, *watched, optimizer, run=folder, trace=level, replay_every=0, **settings
    ) as guard:
        for _ in range(steps):
            loss_of(model).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert guard.findings == ()
    assert guard.verdict.ok, guard.verdict.to_json()["coverage"]
    return list(everybit.open_run(folder).log().steps()), guard


def outputs(record: StepRecord) -> dict[str, int]:
    """Return the digests of outputs by name, in order."""
    return {n: w for table in record.tables if table.link is Link.FORWARD for n, w in table}


def gradients(record: StepRecord) -> dict[str, int]:
    """Return the digests of the gradients of outputs by name, in order."""
    return {
        name: word
        for table in record.tables
        if table.link is Link.GRAD
        for name, word in table
        if parse_trace_name(name) is not None
    }


def skipped(guard: everybit.Guard) -> list[str]:
    """Return the reasons in the coverage for what was not traced."""
    assert guard.coverage is not None
    return [
        each.why
        for each in guard.coverage.skipped
        if "traced" in each.what or "tracing" in each.what
    ]

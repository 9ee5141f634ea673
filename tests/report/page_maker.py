"""Pages made of summaries and timelines directly, without a run folder."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from everybit.core.finding import Location
from everybit.core.link import Link
from everybit.core.rule import all_rules
from everybit.core.verdict import Checked, Coverage, Skipped, Verdict
from everybit.ledger.facts import StepFacts
from everybit.report.page import render_page
from everybit.report.run_summary import LogSummary, State
from everybit.report.series import Grid
from everybit.report.timelines import LineKey, Timelines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;\x1b[31m\u202e"


def falling(step: int) -> float:
    return 3.0 / (step + 1)


def log(num_steps: int = 30, **facts: Any) -> LogSummary:
    values = {
        "rank": 0,
        "attempt": 0,
        "header": {"command": ["python", "train.py"], "environment": {"python": {"v": "3.11"}}},
        "state": State.CLEAN,
        "num_steps": num_steps,
        "links": {Link.INIT, Link.BATCH, Link.LOSS, Link.UPDATE},
        "seconds": 0.5 * num_steps,
        "guard_seconds": 0.005 * num_steps,
        **facts,
    }
    made = LogSummary(**values)
    if num_steps:
        made.first_step, made.last_step = 0, num_steps - 1
    return made


def facts(step: int, loss: float, **scalars: float) -> StepFacts:
    return StepFacts(step, 1.8e9 + step, 0.5, 0.005, "", False, False, (loss,), scalars)


def timelines(
    num_steps: int = 30,
    loss: Callable[[int], float] = falling,
    *,
    ranks: int = 1,
    watched: Sequence[int] = (),
    scalars: Callable[[int], Mapping[str, float]] = lambda step: {},
    width: int = 1,
) -> Timelines:
    grid = Grid(first=0, width=width, size=max(-(-num_steps // width), 1))
    made = Timelines(grid=grid, watched=frozenset(watched))
    for rank in range(ranks):
        lines = made.lines.setdefault(LineKey(rank=rank, attempt=0), {})
        for step in range(num_steps):
            made.take(lines, facts(step, loss(step), **scalars(step)))
    return made


def page(
    verdict: Verdict | None = None,
    logs: Sequence[LogSummary] | None = None,
    drawn: Timelines | None = None,
    run: str = "runs/a",
) -> str:
    return render_page(
        verdict or Verdict(command="run", target=(run,)),
        [log()] if logs is None else logs,
        timelines() if drawn is None else drawn,
        run=run,
        made_at_s=1.8e9,
        version="0.0",
    )


def whole_verdict(**facts: Any) -> Verdict:
    return Verdict(
        command="run",
        target=("runs/a",),
        **{
            "findings": tuple(
                each.finding(
                    f"message of {each.id}", where=Location(step=3, rank=0, parameter="h.w")
                )
                for each in all_rules()
            ),
            "coverage": Coverage(
                checked=(Checked(what="tensors at rest", count=1234),),
                skipped=(
                    Skipped(what="forward", why="not in this release", promised=False),
                    Skipped(what="gradients", why="compiled region"),
                ),
            ),
            "stats": {"seconds": 12.5},
            **facts,
        },
    )


def spiky(step: int) -> float:
    return math.nan if step == 7 else 99.0 if step == 11 else 1.0

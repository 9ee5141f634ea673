"""Steps, findings and a verdict to tell sinks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from everybit.core.finding import Location
from everybit.core.observation import StepRecord
from everybit.core.rule import rule
from everybit.core.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.finding import Finding
    from everybit.core.sink import Sink

VERDICT = Verdict(command="run", target=("run",))


def finding_at(step: int, **evidence: Any) -> Finding:
    where = Location(step=step, rank=0, parameter="w")
    return rule("MEM601").finding(f"w changed at step {step}", where=where, evidence=evidence)


def record_of(step: int, *losses: float, **scalars: float) -> StepRecord:
    return StepRecord(
        step=step, time_s=1000.0 + step, duration_s=0.11, guard_s=0.01,
        losses=losses, scalars=scalars,
    )  # fmt: skip


def drive(sinks: Sequence[Sink], steps: int = 20, *, found_at: int = 7) -> float:
    """Tell sinks of a run; returns the seconds that its end took."""
    for step in range(steps):
        for sink in sinks:
            if step == found_at:
                sink.finding(finding_at(step))
            sink.step(record_of(step, 1 / (step + 1), grad_norm=2.0 * step))
    began = time.monotonic()
    for sink in sinks:
        sink.close(VERDICT)
    return time.monotonic() - began

"""Real run folders, written by the ledger's own writer, in every state a run can be left in."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from everybit.core.finding import Finding, Location
from everybit.core.link import Link
from everybit.core.observation import StepRecord, TensorTable
from everybit.core.rule import rule
from everybit.core.verdict import Checked, Coverage, Skipped
from everybit.ledger import EndReason, RunWriter

COVERAGE = Coverage(
    checked=(Checked(what="tensors at rest", count=120),),
    skipped=(Skipped(what="forward", why="not part of this release", promised=False),),
)
STATS = {"seconds": 12.0, "guard_seconds": 0.12}


def flip(step: int = 12, parameter: str = "h.0.weight", **place: Any) -> Finding:
    where = {"step": step, "link": Link.STATE, "elements": (17,), "parameter": parameter, **place}
    return rule("MEM601").finding(
        f"`{parameter}` changed at rest before step {step}.",
        where=Location(**where),
        evidence={
            "dtype": "float32",
            "num_elements": 1,
            "num_bits": 1,
            "changes": [{"element": 17, "before": 1.0, "after": -1.0, "bits": [31]}],
        },
    )


def record(step: int, loss: float | None = None, **facts: Any) -> StepRecord:
    losses = () if loss is None else (loss,)
    tables = (
        TensorTable(link=Link.BATCH, names=("0",), digests=(step,)),
        TensorTable(link=Link.UPDATE, names=("h.0.weight",), digests=(step + 1,)),
    )
    values = {"time_s": 1.8e9 + step, "duration_s": 0.5, "guard_s": 0.01, "tables": tables}
    return StepRecord(step=step, losses=losses, **{**values, **facts})


if TYPE_CHECKING:
    from pathlib import Path


class RunMaker:
    """Writes a run folder attempt by attempt."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def attempt(
        self,
        steps: range = range(20),
        *,
        rank: int = 0,
        world_size: int = 1,
        findings: tuple[Finding, ...] = (),
        loss: Any = lambda step: 4.0 / (step + 1),
        coverage: Coverage | None = COVERAGE,
        end: EndReason | None = EndReason.CLEAN,
        code: int = 0,
        detail: str = "",
        close: bool = True,
        **opened: Any,
    ) -> RunWriter:
        opened = {
            "command": ["python", "train.py", "--lr", "1e-3"],
            "environment": {"python": {"version": "3.11.2"}, "torch": {"version": "2.13.0"}},
            **opened,
        }
        writer = RunWriter.open(self.path, rank=rank, world_size=world_size, **opened)
        writer.tables(0, (TensorTable(link=Link.INIT, names=("h.0.weight",), digests=(1,)),))
        for step in steps:
            writer.step(record(step, loss(step)))
            for finding in findings:
                if finding.where.step == step:
                    writer.finding(finding)
        if coverage is not None:
            writer.coverage(coverage, STATS)
        if end is not None:
            writer.end(end, code, detail)
        if close:
            writer.close()
        return writer

    def killed(self, steps: range = range(20), **options: Any) -> None:
        """Write an attempt in a process that dies with no end record."""
        child = os.fork()
        if not child:
            try:
                self.attempt(steps, **{"coverage": None, "end": None, "close": False, **options})
            finally:
                os._exit(0)
        os.waitpid(child, 0)

    def logs(self) -> list[Path]:
        return sorted(path for path in self.path.iterdir() if path.name != "run.json")

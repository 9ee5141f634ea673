"""The Guard's side of the run record: steps with their cost, findings, and what was covered."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from everybit.core.observation import Observation, StepRecord
from everybit.core.verdict import Coverage, Skipped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.core.finding import Finding
    from everybit.core.observation import SumTable, TensorTable
    from everybit.core.samples import SampleRecord
    from everybit.core.sink import Sink
    from everybit.ledger import EndReason, RunWriter

#: Findings kept in one run; more are counted.
MAX_FINDINGS = 1000


class Journal:
    """Write a run's steps and findings, and account for what was checked and what it cost.

    Args:
        writer: The open ledger.
        sinks: Are told every step.
    """

    def __init__(self, writer: RunWriter, sinks: Sequence[Sink] = ()) -> None:
        self.findings: list[Finding] = []
        self.num_findings = 0
        self.num_steps = 0
        self.spent_s = 0.0
        self.paused_s = 0.0
        self._writer = writer
        self._sinks = sinks
        self._began = time.perf_counter()
        self._last_end = math.nan
        self._spent_before = 0.0
        self._tainted: set[int] = set()

    def initial(self, step: int, tables: tuple[TensorTable, ...]) -> None:
        """Record the digests of the state that the run starts from."""
        if tables:
            self._writer.tables(step, tables)

    def step(
        self,
        step: int,
        *,
        optimizer: str,
        skipped: bool,
        losses: tuple[float, ...],
        tables: tuple[TensorTable, ...],
        scalars: Mapping[str, float],
        sums: tuple[SumTable, ...] = (),
    ) -> None:
        """Record one finished or skipped update."""
        now = time.perf_counter()
        record = StepRecord(
            step=step,
            time_s=time.time(),
            duration_s=now - self._last_end,
            guard_s=self.spent_s - self._spent_before,
            optimizer=optimizer,
            skipped=skipped,
            tainted=step in self._tainted,
            losses=losses,
            tables=tables,
            scalars=scalars,
            sums=sums,
        )
        self._last_end = now
        self._spent_before = self.spent_s
        self._tainted.discard(step)
        self.num_steps += 1
        self._writer.step(record)
        for sink in self._sinks:
            sink.step(record)

    def finding(self, finding: Finding) -> None:
        """Record a finding."""
        self.num_findings += 1
        if finding.evidence.get("tainted") and finding.where.step is not None:
            self._tainted.add(finding.where.step)
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(finding)
            self._writer.finding(finding)

    def samples(self, record: SampleRecord) -> None:
        """Record a batch that a loader delivered."""
        self._writer.samples(record)

    def paused(self, step: int, *, seconds: float, ending: str) -> None:
        """Record a pause; its time is neither the step's nor the guard's."""
        self.paused_s += seconds
        self._last_end += seconds
        self.observe("pause", step, seconds=round(seconds, 3), ending=ending)

    def observe(self, kind: str, step: int, **data: Any) -> None:
        """Record anything else worth keeping."""
        self._writer.observe(Observation(kind=kind, step=step, data=data))

    def close(
        self,
        reason: EndReason,
        code: int,
        detail: str,
        *,
        coverage: Coverage,
        stats: dict[str, Any],
    ) -> tuple[Coverage, dict[str, Any]]:
        """Record coverage, cost and the end; returns the first two."""
        if self.num_findings > len(self.findings):
            more = self.num_findings - len(self.findings)
            why = f"{more} more than are kept"
            coverage += Coverage(skipped=(Skipped(what="findings", why=why, promised=False),))
        seconds = time.perf_counter() - self._began
        numbers = {
            "steps": self.num_steps,
            "seconds": round(seconds, 3),
            "guard_seconds": round(self.spent_s, 3),
            "overhead": round(self.spent_s / max(seconds - self.paused_s - self.spent_s, 1e-9), 4),
            "findings": self.num_findings,
            **({"paused_seconds": round(self.paused_s, 3)} if self.paused_s else {}),
            **stats,
        }
        self._writer.coverage(coverage, numbers)
        self._writer.end(reason, code, detail)
        self._writer.close()
        # Asked last: the disk may have filled up with these very records.
        failed = self._writer.failed
        if failed is not None:
            why = f"recording stopped: {failed.strerror or failed}"
            coverage += Coverage(skipped=(Skipped(what="run record", why=why),))
        return coverage, numbers

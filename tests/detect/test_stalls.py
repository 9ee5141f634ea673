from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.core.finding import Severity
from everybit.core.observation import Observation
from everybit.detect.stalls import judge_stalls
from everybit.ledger import EndReason, RunWriter, open_run

if TYPE_CHECKING:
    from pathlib import Path


def test_each_stall_is_a_note(tmp_path: Path) -> None:
    writer = RunWriter.open(tmp_path, rank=2, world_size=4)
    writer.observe(Observation(kind="stood-still", step=7, data={"seconds": 61.3}))
    writer.observe(Observation(kind="phase", step=8, data={"name": "later", "seconds": 3}))
    writer.observe(Observation(kind="stood-still", step=9, data={"seconds": "?"}))
    writer.end(EndReason.CLEAN)
    (finding,) = judge_stalls(open_run(tmp_path).log(2))
    assert finding.rule == "RUN153"
    assert finding.severity is Severity.NOTE
    assert (finding.where.rank, finding.where.step) == (2, 7)
    assert finding.message == "rank 2 stood still for 61 s at step 7"
    assert finding.evidence["seconds"] == 61.3

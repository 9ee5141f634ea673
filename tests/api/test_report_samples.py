"""`everybit report` puts the samples of all ranks side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.api.report import verdict_of_run
from everybit.core.observation import Observation
from everybit.core.samples import Order, Promise, SampleRecord
from everybit.ledger import EndReason, RunWriter, open_run

if TYPE_CHECKING:
    from pathlib import Path


def record(run: Path, promise: Promise, keys: list[list[int]]) -> None:
    for rank, mine in enumerate(keys):
        writer = RunWriter.open(run, rank=rank, world_size=len(keys))
        data = {"loader": "data", **promise.to_json()}
        writer.observe(Observation(kind="loader", step=0, data=data))
        for number in range(0, len(mine), 4):
            part = tuple(mine[number : number + 4])
            writer.samples(
                SampleRecord(
                    loader="data",
                    epoch=0,
                    batch=number // 4,
                    step=number // 4,
                    rank=rank,
                    indices=part,
                    sample_digests=tuple(key + 1 for key in part),
                )
            )
        writer.end(EndReason.CLEAN)
        writer.close()


def test_ranks_that_all_read_everything(tmp_path: Path) -> None:
    whole = list(range(16))
    promise = Promise(order=Order.RANDOM, length=16, num_samples=16, once=True, shuffle=True)
    record(tmp_path / "same", promise, [whole, whole[::-1]])
    (finding,) = verdict_of_run(open_run(tmp_path / "same")).findings
    assert finding.rule == "DAT401"
    record(tmp_path / "parts", promise, [whole[:8], whole[8:]])
    assert verdict_of_run(open_run(tmp_path / "parts")).findings == ()

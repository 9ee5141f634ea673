from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from bench.ledger_campaign import make_step

from everybit.core.errors import PathError
from everybit.ledger import EndReason, RunWriter, open_run

if TYPE_CHECKING:
    from pathlib import Path


def test_a_log_is_read_without_holding_it(tmp_path: Path) -> None:
    writer = RunWriter.open(tmp_path)
    record = make_step(0, num_tensors=200)
    for number in range(1500):
        writer.step(replace(record, step=number))
    writer.end(EndReason.CLEAN)
    log = open_run(tmp_path).log()
    size = log.path.stat().st_size
    assert size > 4 << 20
    tracemalloc.start()
    assert sum(1 for _ in log.steps()) == 1500
    assert log.step(1499) == replace(record, step=1499)
    assert tracemalloc.get_traced_memory()[1] < 3 << 20
    tracemalloc.stop()


def test_steps_with_gaps_are_sought(tmp_path: Path) -> None:
    writer = RunWriter.open(tmp_path)
    for number in range(0, 100, 10):
        writer.step(make_step(number))
    log = open_run(tmp_path).log()
    assert log.step_range == range(91)
    assert log.num_steps == 10
    assert log.step(50) == make_step(50)
    assert [log.step(number) for number in (-1, 5, 51, 91, 1000)] == [None] * 5


def test_of_a_step_taken_again_the_last_record_counts(tmp_path: Path) -> None:
    writer = RunWriter.open(tmp_path)
    for number in (0, 1, 2, 3, 1, 2):
        writer.step(make_step(number))
    again = replace(make_step(2), tainted=True)
    writer.step(again)
    log = open_run(tmp_path).log()
    assert log.step(2) == again
    assert log.step(3) == make_step(3)
    assert log.step(4) is None
    assert [record.step for record in log.steps()] == [0, 1, 2, 3, 1, 2, 2]


def test_two_optimizers_share_a_step_order(tmp_path: Path) -> None:
    writer = RunWriter.open(tmp_path)
    steps = [replace(make_step(k), optimizer=("AdamW", "SGD")[k % 2]) for k in range(6)]
    for record in steps:
        writer.step(record)
    assert list(open_run(tmp_path).log().steps()) == steps


def test_a_rank_without_log_is_told(tmp_path: Path) -> None:
    RunWriter.open(tmp_path, rank=1, world_size=2)
    run = open_run(tmp_path)
    assert run.alive
    assert run.damage == ()  # rank 0 may still come
    with pytest.raises(PathError, match="ranks on record: 1"):
        run.log(0)

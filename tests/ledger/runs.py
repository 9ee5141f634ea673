"""Small runs to damage, and how to look into them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.ledger_campaign import make_step

from everybit.ledger import Damage, EndReason, RunReader, RunWriter, open_run
from everybit.ledger.frame import Kind
from everybit.ledger.scan import Intact, scan_frames
from everybit.ledger.window import Window

if TYPE_CHECKING:
    from pathlib import Path

LOG = "rank-00000.attempt-000.log"
NUM_STEPS = 12


def record(folder: Path, num_steps: int = NUM_STEPS, num_tensors: int = 6, seed: int = 0) -> Path:
    writer = RunWriter.open(folder)
    for number in range(num_steps):
        writer.step(make_step(number, num_tensors, rank=seed))
    writer.end(EndReason.CLEAN)
    writer.close()
    return folder


def frames_of(log: Path) -> list[Intact]:
    with Window(log) as window:
        return [piece for piece in scan_frames(window) if isinstance(piece, Intact)]


def step_frames(log: Path) -> list[Intact]:
    return [frame for frame in frames_of(log) if frame.header.kind == Kind.STEP]


def numbers(folder: Path) -> list[int]:
    return [step.step for step in open_run(folder).log().steps()]


def assert_steps_are_true(folder: Path) -> None:
    for step in open_run(folder).log().steps():
        assert step == make_step(step.step)


def only(run: RunReader) -> Damage:
    assert len(run.damage) == 1, run.damage
    return run.damage[0]

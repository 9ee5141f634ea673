"""Break run records on purpose: random bit flips, kills at random moments; and measure the cost.

    python -m bench.ledger_campaign --flips 10000 --kills 50 --out bench/results/ledger.json

The tests run smaller slices of the same functions.
"""

from __future__ import annotations

import argparse
import json
import math
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from everybit.core.finding import Location
from everybit.core.link import Link
from everybit.core.observation import Observation, StepRecord, TensorTable
from everybit.core.rule import rule
from everybit.core.verdict import Checked, Coverage, Skipped
from everybit.ledger import EndReason, RunReader, RunWriter, open_run

LINKS = (Link.BATCH, Link.RNG, Link.LOSS, Link.GRAD, Link.UPDATE)


def make_step(number: int, num_tensors: int = 6, rank: int = 0) -> StepRecord:
    """Return the same record for the same arguments, whoever asks."""
    rng = random.Random(f"{number}/{num_tensors}/{rank}")
    names = tuple(f"blocks.{i}.weight" for i in range(num_tensors))
    tables = []
    for link in LINKS:
        listed = names if link in (Link.GRAD, Link.UPDATE) else names[:1]
        words = tuple(rng.getrandbits(64) for _ in listed)
        tables.append(TensorTable(link=link, names=listed, digests=words))
    return StepRecord(
        step=number,
        time_s=1.7e9 + number,
        duration_s=0.25,
        guard_s=0.001,
        optimizer="AdamW",
        skipped=number % 7 == 3,
        tainted=number % 11 == 5,
        losses=(rng.random(), rng.random()),
        tables=tuple(tables),
    )


def make_run(folder: Path, num_steps: int = 12) -> None:
    """Record a run of two ranks; rank 0 was killed in its first attempt."""
    environment = {
        "python": {"version": "3.11"},
        "variables": {f"V{i}": "x" * i for i in range(40)},
    }
    command = ["train.py", "--lr", "3e-4"]
    for rank, attempt in ((0, 0), (1, 0), (0, 1)):
        writer = RunWriter.open(
            folder, rank=rank, world_size=2, command=command, environment=environment
        )
        names = ("blocks.0.weight", "blocks.1.weight")
        writer.tables(0, (TensorTable(link=Link.INIT, names=names, digests=(1, 2)),))
        for number in range(num_steps):
            writer.step(make_step(number, rank=rank))
        writer.observe(Observation(kind="phase", step=num_steps, data={"phase": "evaluation"}))
        where = Location(step=3, parameter="blocks.0.weight", elements=(7,), rank=rank)
        writer.finding(rule("MEM601").finding("a weight changed", where=where, evidence={"n": 1}))
        if (rank, attempt) != (0, 0):
            checked, skipped = Checked(what="at rest", count=9), Skipped(what="replay", why="off")
            writer.coverage(Coverage(checked=(checked,), skipped=(skipped,)), {"overhead": 0.01})
            writer.end(EndReason.CLEAN)
        writer.close()


def snapshot(run: RunReader) -> dict[str, list[StepRecord]]:
    """Return the steps of every log, by file name."""
    return {log.path.name: list(log.steps()) for rank in run.ranks for log in run.logs(rank)}


def is_told(run: RunReader) -> bool:
    """Whether the reader says that anything is wrong with the record (no log of it was torn)."""
    return bool(run.damage) or any(log.torn for rank in run.ranks for log in run.logs(rank))


def flip_campaign(folder: Path, count: int, seed: int, num_steps: int = 12) -> dict[str, Any]:
    """Flip one random bit of a run folder, read it, put it back; `count` times."""
    make_run(folder, num_steps)
    whole = open_run(folder)
    assert not is_told(whole), whole.damage
    steps = snapshot(whole)
    files = sorted(path for path in folder.iterdir())
    sizes = [path.stat().st_size for path in files]
    rng = random.Random(seed)
    unseen, changed, most_lost = [], [], 0
    for _ in range(count):
        # `run.json` is small: draw it more often than its size would.
        path = rng.choice(files) if rng.random() < 0.1 else rng.choices(files, sizes)[0]
        at, bit = rng.randrange(path.stat().st_size), rng.randrange(8)
        flip(path, at, bit)
        run = open_run(folder)
        if not is_told(run):
            unseen.append((path.name, at, bit))
        for name, read in snapshot(run).items():
            original = {record.step: record for record in steps[name]}
            if any(original.get(record.step) != record for record in read):
                changed.append((path.name, at, bit))
            most_lost = max(most_lost, len(original) - len(read))
        flip(path, at, bit)
    return {
        "flips": count,
        "seed": seed,
        "bits_in_folder": 8 * sum(sizes),
        "passed_as_clean": unseen,
        "read_wrong_or_partly": changed,
        "most_steps_lost_by_one_flip": most_lost,
    }


def flip(path: Path, at: int, bit: int) -> None:
    """Flip one bit of a file, in place."""
    with path.open("r+b", buffering=0) as stream:
        stream.seek(at)
        byte = stream.read(1)[0]
        stream.seek(at)
        stream.write(bytes([byte ^ (1 << bit)]))


_CHILD = """
import mmap, os, struct, sys
from pathlib import Path
from bench.ledger_campaign import make_step
from everybit.ledger import RunWriter
records = [make_step(k, 20) for k in range(64)]
from dataclasses import replace
with open(sys.argv[2], "r+b") as stream:
    counter = mmap.mmap(stream.fileno(), 8)
writer = RunWriter.open(Path(sys.argv[1]))
step = 0
while True:
    writer.step(replace(records[step % 64], step=step))
    step += 1
    counter[:8] = struct.pack("<Q", step)
"""


def kill_campaign(folder: Path, count: int, seed: int) -> dict[str, Any]:
    """Kill a process that records at full speed, at a random moment; read what it left."""
    rng = random.Random(seed)
    lost, wrong, recorded, torn, last_wins = [], [], 0, 0, 0
    expected = [make_step(k, 20) for k in range(64)]
    for number in range(count):
        run_folder, counter = folder / f"run-{number}", folder / f"counter-{number}"
        counter.write_bytes(bytes(8))
        child = subprocess.Popen([sys.executable, "-c", _CHILD, run_folder, counter], cwd=_ROOT)
        with counter.open("r+b") as stream, mmap.mmap(stream.fileno(), 8) as shared:
            while not any(shared[:8]):
                if child.poll() is not None:
                    raise RuntimeError("the recording process ended by itself")
                time.sleep(0.0005)
            time.sleep(rng.uniform(0, 0.05))
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
            (completed,) = struct.unpack("<Q", shared[:8])
        run = open_run(run_folder)
        log = run.log()
        read = 0
        for record in log.steps():
            like = expected[read % 64]
            if record.step != read or record.tables != like.tables or record.losses != like.losses:
                wrong.append((number, read))
            read += 1
        if run.damage or log.alive or log.end is not None:
            wrong.append((number, [damage.what for damage in run.damage]))
        if not completed <= read <= completed + 1:
            lost.append((number, completed, read))
        last_wins += read == completed + 1
        recorded, torn = recorded + read, torn + log.torn
    return {
        "kills": count,
        "seed": seed,
        "steps_recorded": recorded,
        "completed_steps_lost": lost,
        "read_wrong": wrong,
        "torn_last_frames": torn,
        "unreported_step_was_recorded_too": last_wins,
    }


_ROOT = Path(__file__).resolve().parent.parent


def measure(folder: Path, num_tensors: int = 300, num_steps: int = 20_000) -> dict[str, Any]:
    """Time the recording and the reading of steps with `num_tensors` digests in three tables."""
    import numpy as np

    rng = np.random.default_rng(0)
    size = num_tensors // 3
    names = tuple(f"transformer.blocks.{i}.attention.weight" for i in range(size))
    records = []
    for number in range(num_steps):
        tables = tuple(
            TensorTable(link=link, names=names, digests=rng.integers(0, 2**64, size, np.uint64))
            for link in (Link.BATCH, Link.GRAD, Link.UPDATE)
        )
        records.append(
            StepRecord(step=number, time_s=1.0, duration_s=1.0, guard_s=0.0, tables=tables)
        )
    writer = RunWriter.open(folder)
    before, times = writer_size(folder), []
    for record in records:
        start = time.perf_counter()
        writer.step(record)
        times.append(time.perf_counter() - start)
    num_bytes = writer_size(folder) - before
    writer.end(EndReason.CLEAN)
    writer.close()
    start = time.perf_counter()
    log = open_run(folder).log()
    assert log.num_steps == num_steps
    index_s = time.perf_counter() - start
    start = time.perf_counter()
    assert sum(1 for _ in log.steps()) == num_steps
    read_s = time.perf_counter() - start
    start = time.perf_counter()
    for number in range(0, num_steps, 100):
        assert log.step(number) is not None
    seek_s = (time.perf_counter() - start) / math.ceil(num_steps / 100)
    times.sort()
    return {
        "tensors": num_tensors,
        "steps": num_steps,
        "write_us_median": round(1e6 * times[len(times) // 2], 1),
        "write_us_p99": round(1e6 * times[len(times) * 99 // 100], 1),
        "bytes_per_tensor_and_step": round(num_bytes / num_steps / num_tensors, 3),
        "index_us_per_step": round(1e6 * index_s / num_steps, 2),
        "iterate_us_per_step": round(1e6 * read_s / num_steps, 2),
        "seek_us": round(1e6 * seek_s, 1),
    }


def writer_size(folder: Path) -> int:
    """Return the length of the run's first log."""
    return (folder / "rank-00000.attempt-000.log").stat().st_size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flips", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="everybit-ledger-") as name:
        folder = Path(name)
        if options.flips:
            result["flips"] = flip_campaign(folder / "flips", options.flips, options.seed)
        if options.kills:
            (folder / "kills").mkdir()
            result["kills"] = kill_campaign(folder / "kills", options.kills, options.seed)
        result["cost"] = measure(folder / "cost")
    text = json.dumps(result, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

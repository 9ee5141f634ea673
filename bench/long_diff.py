"""What it costs to compare two long records: 100,000 steps of 100 modules, traced by module.

    python -m bench.long_diff [--steps 100000] [--modules 100] [--place /dev/shm] [--write]

Two records are written that differ in one output of the last step, and one more pair with block
sums at every 16th step. Each pair is compared in a process of its own. Its CPU time is set against
that of a process that does no more than read both files and hash them (XXH3): of all that was
measured this depends least on the machine and on what else runs there. Wall times are kept with the
load under which they were taken. Writes `bench/results/long-diff.json`; `--write` puts the table
into `docs/benchmarks.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from bench.kept import commit
from bench.table import write_section

from everybit.core.link import Link
from everybit.core.observation import StepRecord, SumTable, TensorTable
from everybit.ledger import EndReason, RunWriter

BENCH = Path(__file__).resolve().parent
RESULTS = BENCH / "results" / "long-diff.json"
#: Steps from one with block sums to the next.
SUMS_EVERY = 16
_DIFF = """
import json, sys, time
from everybit.api.diff import diff
began, cpu = time.perf_counter(), time.process_time()
verdict = diff(*sys.argv[1:])
first = verdict.first
wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
# Not ru_maxrss: that begins at what the process held that started this one.
with open("/proc/self/status") as file:
    peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
print(json.dumps({
    "wall_s": wall_s, "cpu_s": cpu_s, "peak_mb": peak / 1024,
    "step": first.where.step, "module": first.where.module, "values": verdict.stats["values"],
}))
"""
_READ = """
import json, sys, time
from pathlib import Path
import xxhash
began, cpu = time.perf_counter(), time.process_time()
for folder in sys.argv[1:]:
    for path in Path(folder).glob("*.log"):
        with path.open("rb") as file:
            state = xxhash.xxh3_128()
            while block := file.read(1 << 20):
                state.update(block)
print(json.dumps({"wall_s": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}))
"""


def generate(
    folder: Path, *, steps: int, modules: int, sums: bool = False, part_at: int = -1
) -> int:
    """Write a record; returns its bytes.

    Args:
        folder: The run folder.
        steps: Steps of it.
        modules: Modules, each with a weight and a bias.
        sums: With block sums.
        part_at: The step at which the output of the middle module has another digest; -1: none.
    """
    names = [f"blocks.{number}.linear" for number in range(modules)]
    outputs = tuple(f"{name}()" for name in names)
    gradients = tuple(f"grad {name}()" for name in reversed(names))
    parameters = tuple(f"{name}.{each}" for name in names for each in ("weight", "bias"))
    base = np.random.default_rng(0).integers(0, 2**63, size=3 * modules, dtype=np.uint64)
    rows = np.random.default_rng(1).normal(size=(modules, 66)).astype(np.float32)
    writer = RunWriter.open(
        folder,
        rank=0,
        world_size=1,
        environment={},
        config={"every": 1, "trace": "module"},
        command=["train.py"],
    )
    for step in range(steps):
        words = base + np.uint64(step)
        if step == part_at:
            words = words.copy()
            words[modules // 2] ^= np.uint64(1)
        tables = (
            TensorTable(link=Link.BATCH, names=("0",), digests=words[:1]),
            TensorTable(link=Link.RNG, names=("python", "torch"), digests=words[:2]),
            TensorTable(link=Link.FORWARD, names=outputs, digests=words[:modules]),
            TensorTable(link=Link.LOSS, names=("0",), digests=words[:1]),
            TensorTable(link=Link.GRAD, names=gradients, digests=words[:modules]),
            TensorTable(link=Link.GRAD, names=parameters, digests=words[: 2 * modules]),
            TensorTable(link=Link.UPDATE, names=parameters, digests=words[modules:]),
        )
        summed: tuple[SumTable, ...] = ()
        if sums and step % SUMS_EVERY == 0:
            summed = (
                SumTable(link=Link.FORWARD, names=outputs, values=rows),
                SumTable(link=Link.GRAD, names=gradients, values=rows),
            )
        writer.step(
            StepRecord(
                step=step,
                time_s=1.0 * step,
                duration_s=1.0,
                guard_s=0.1,
                optimizer="AdamW",
                losses=(1.0,),
                tables=tables,
                sums=summed,
            )
        )
    writer.end(EndReason.CLEAN)
    writer.close()
    return sum(path.stat().st_size for path in folder.glob("*.log"))


def _alone(program: str, *folders: Path) -> dict[str, Any]:
    ended = subprocess.run(
        [sys.executable, "-c", program, *map(str, folders)],
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(ended.stdout))


def measure(place: Path, *, steps: int, modules: int, sums: bool) -> dict[str, Any]:
    """Write a pair, compare it, and return what that cost."""
    pair = place / "a", place / "b"
    size = 0
    for folder, part_at in zip(pair, (-1, steps - 1), strict=True):
        shutil.rmtree(folder, ignore_errors=True)
        size += generate(folder, steps=steps, modules=modules, sums=sums, part_at=part_at)
    read = min((_alone(_READ, *pair) for _ in range(3)), key=lambda each: each["wall_s"])
    told = min((_alone(_DIFF, *pair) for _ in range(2)), key=lambda each: each["wall_s"])
    expected = (steps - 1, f"blocks.{modules // 2}.linear")
    for folder in pair:
        shutil.rmtree(folder)
    return {
        "steps": steps,
        "modules": modules,
        "block_sums": sums,
        "record_mb": round(size / 2**20 / 2, 1),
        "values": told["values"],
        "found": (told["step"], told["module"]) == expected,
        "times_reading": round(told["wall_s"] / read["wall_s"], 2),
        "cpu_times_reading": round(told["cpu_s"] / read["cpu_s"], 2),
        "wall_s": round(told["wall_s"], 2),
        "cpu_s": round(told["cpu_s"], 2),
        "peak_mb": round(told["peak_mb"], 1),
    }


def markdown(result: dict[str, Any]) -> str:
    """Return the section of the page."""
    lines = [
        "## Long records",
        "",
        "`python -m bench.long_diff` compares two records that differ in one output of the last",
        f"step (commit {result['commit']}).",
        "",
        "| record | values compared | size | found | CPU time over that of reading | memory |",
        "|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        what = f"{row['steps']:,} steps of {row['modules']} modules"
        what += ", block sums" if row["block_sums"] else ""
        found = "yes" if row["found"] else "no"
        lines.append(
            f"| {what} | {row['values']:,} | {row['record_mb']:,.0f} MiB | {found} "
            f"| {row['cpu_times_reading']} | {row['peak_mb']:,.0f} MiB |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure, keep, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--modules", type=int, default=100)
    parser.add_argument("--place", type=Path, help="where the records go; some 1.5 GB of room")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="long-diff-", dir=given.place) as place:
        for sums in (False, True):
            row = measure(Path(place), steps=given.steps, modules=given.modules, sums=sums)
            print(json.dumps(row), flush=True)
            rows.append(row)
    result = {
        "commit": commit(),
        "python": platform.python_version(),
        "load": [round(each, 1) for each in os.getloadavg()],
        "cpus": os.cpu_count(),
        "rows": rows,
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if given.write:
        write_section("long-diff", markdown(result))


if __name__ == "__main__":
    main()

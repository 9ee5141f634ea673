"""A module-level trace of many steps, and how long two of them take to be compared.

    python bench/trace_record.py [--steps 100000] [--modules 100] [--part-at 90000] [--place DIR]

Writes two runs through the ledger's writer, as a Guard with `trace="module"` does: of each module
its output, the gradient of that, the gradient of a weight, and the weight after the update. They
part at one output of one step, and everything behind it. The comparison runs in a process of its
own, whose peak memory is told.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from everybit.core.link import Link
from everybit.core.observation import StepRecord, TensorTable
from everybit.core.trace_name import forward_name, output_gradient_name
from everybit.ledger import EndReason, RunWriter

COMPARE = """
import json, resource, sys, time
import everybit
began = time.perf_counter()
verdict = everybit.diff(sys.argv[1], sys.argv[2])
seconds = time.perf_counter() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
told = verdict.to_json()
print(json.dumps({"seconds": seconds, "peak_bytes": peak, "first": told["first"],
                  "kind": told.get("kind")}))
"""


def names_of(num_modules):
    """Return the names of a step's tables by link, in causal order."""
    modules = [f"blocks.{number}.fc" for number in range(num_modules)]
    return [
        (Link.FORWARD, tuple(map(forward_name, modules))),
        (Link.GRAD, tuple(map(output_gradient_name, reversed(modules)))),
        (Link.GRAD, tuple(f"{module}.weight" for module in modules)),
        (Link.UPDATE, tuple(f"{module}.weight" for module in modules)),
    ]


def write_run(folder, *, steps, modules, part_at=None):
    """Write a run; from step `part_at` on, behind the middle of its outputs, words are others."""
    named = names_of(modules)
    rng = np.random.default_rng(0)
    writer = RunWriter.open(folder, command=["train.py"], config={"every": 1, "trace": "module"})
    for step in range(steps):
        words = rng.integers(0, 1 << 63, (len(named), modules), dtype=np.uint64)
        if part_at is not None and step >= part_at:
            words.reshape(-1)[modules // 2 if step == part_at else 0 :] += np.uint64(1)
        tables = tuple(
            TensorTable(link=link, names=names, digests=row)
            for (link, names), row in zip(named, words, strict=True)
        )
        writer.step(
            StepRecord(
                step=step,
                time_s=1.7e9 + step,
                duration_s=1.0,
                guard_s=0.02,
                optimizer="AdamW",
                losses=(1.0 / (1 + step),),
                tables=tables,
                scalars={"grad_norm": 1.0, "lr": 1e-3},
            )
        )
    writer.end(EndReason.CLEAN)
    writer.close()
    return sum(path.stat().st_size for path in Path(folder).iterdir())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--modules", type=int, default=100)
    parser.add_argument("--part-at", type=int, default=90_000)
    parser.add_argument("--place", type=Path, help="where the runs are written and kept")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    place = options.place or Path(tempfile.mkdtemp())
    try:
        sizes, began = [], time.perf_counter()
        for name, part_at in (("a", None), ("b", min(options.part_at, options.steps - 1))):
            folder = place / name
            if not folder.exists():
                write_run(folder, steps=options.steps, modules=options.modules, part_at=part_at)
            sizes.append(sum(path.stat().st_size for path in folder.iterdir()))
        written_s = time.perf_counter() - began
        done = subprocess.run(
            [sys.executable, "-c", COMPARE, str(place / "a"), str(place / "b")],
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        if options.place is None:
            shutil.rmtree(place)
    result = {
        "steps": options.steps,
        "modules": options.modules,
        "bytes_a_run": sizes[0],
        "bytes_an_observation": round(sizes[0] / (options.steps * options.modules * 4), 2),
        "written_s": round(written_s, 1),
        **json.loads(done.stdout.splitlines()[-1]),
    }
    print(json.dumps(result))
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

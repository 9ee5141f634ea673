"""Kill watched training runs at random moments; every record must read back and report.

    python -m bench.kill_campaign --kills 50 --out bench/results/kills.json

Each run is `everybit run train.py` in a process of its own, killed by SIGKILL at a moment drawn
from the seed: while torch is imported, while the folder is made, between steps, within one. The
script tells each finished step through a pipe, so that what the record must hold is known.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

from bench.kept import commit

SCRIPT = textwrap.dedent(
    """
    import os
    import sys

    import torch

    told = int(sys.argv[1])
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(1_000_000):
        loss = model(torch.randn(8, 16)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        os.write(told, b"s")
    """
)


def kill_one(folder: Path, script: Path, after_s: float) -> tuple[int, float]:
    """Run, kill `after_s` after the first step (before it where negative); return steps told."""
    read, write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "everybit", "run", "--run", str(folder), str(script), str(write)],
        pass_fds=(write,),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(write)
    began = time.monotonic()
    told = 0
    if after_s >= 0:
        told = len(os.read(read, 1))
        time.sleep(after_s)
    else:
        time.sleep(-after_s)
    process.send_signal(signal.SIGKILL)
    process.wait()
    while chunk := os.read(read, 1 << 16):
        told += len(chunk)
    os.close(read)
    return told, time.monotonic() - began


def judge(folder: Path, told: int) -> dict[str, Any]:
    """Read a killed run back and report on it."""
    from everybit.api.report import make_report
    from everybit.core.errors import PathError

    if not (folder / "run.json").exists():
        return {"told": told, "steps": 0, "before_record": True, "lost": told}
    try:
        report = make_report(folder, page=folder / "report.html")
    except PathError as error:
        return {"told": told, "steps": 0, "error": error.line(), "lost": told}
    steps = int(report.verdict.stats.get("steps", 0))
    return {
        "told": told,
        "steps": steps,
        "lost": max(0, told - steps),
        "status": str(report.verdict.status),
        "rules": sorted({finding.rule for finding in report.verdict.findings}),
        "page_bytes": (folder / "report.html").stat().st_size,
    }


def campaign(kills: int, seed: int) -> dict[str, Any]:
    """Kill `kills` runs and return what became of each record."""
    rng = random.Random(seed)
    outcomes = []
    with tempfile.TemporaryDirectory() as place:
        script = Path(place) / "train.py"
        script.write_text(SCRIPT, encoding="utf-8")
        for number in range(kills):
            # One in eight dies before its first step: during imports, or while the folder is made.
            after_s = -rng.uniform(0.1, 3.0) if number % 8 == 7 else rng.uniform(0.0, 1.0)
            folder = Path(place) / f"run-{number}"
            told, _ = kill_one(folder, script, after_s)
            outcomes.append({"after_s": round(after_s, 4), **judge(folder, told)})
            print(number, outcomes[-1], file=sys.stderr)
    return {
        "kills": kills,
        "seed": seed,
        "steps_told": sum(each["told"] for each in outcomes),
        "steps_lost": sum(each["lost"] for each in outcomes),
        "not_reported": [each for each in outcomes if "error" in each],
        "passed_as_clean": [each for each in outcomes if each.get("status") == "clean"],
        "killed_before_the_record": sum(1 for each in outcomes if each.get("before_record")),
        "outcomes": outcomes,
    }


def main() -> int:
    """Run the campaign from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    result = campaign(options.kills, options.seed)
    result = {"commit": commit(), **result}
    if options.out is not None:
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print({key: value for key, value in result.items() if key != "outcomes"})
    return int(bool(result["steps_lost"] or result["not_reported"] or result["passed_as_clean"]))


if __name__ == "__main__":
    sys.exit(main())

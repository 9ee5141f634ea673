"""Every example killed in the middle and gone on with: are ten steps and ten more twenty?

    python -m bench.resume_campaign --seeds 2 --out bench/results/resume.json

Each example that has a loop is run straight through for twenty steps, and a second time until it is
killed (SIGKILL) a few updates after it wrote its checkpoint of step ten; a third process goes on
from that. Once a Guard's `state_dict` is in the checkpoint, and once it holds what the script
itself saves. Losses, weights, optimizers and random streams are to be those of the straight run, to
the last bit; where they are not, what everybit says of it is kept.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from tests.examples.harness import perform
from tests.examples.repertoire import REPERTOIRE, Example, example
from tests.examples.resuming import (
    NOT_RESUMED,
    Three,
    jobs_of,
    problems_resumed,
    told_by_everybit,
)

ROOT = Path(__file__).parent.parent
#: Ways of saving: with the Guard's state, and as the script does alone.
WAYS = ("with the Guard's state", "by itself")


def try_example(tried: Example, seeds: int, place: Path) -> dict[str, Any]:
    """Run one example straight, killed and resumed, in both ways; return what came of it."""
    ways = WAYS[:1] if tried.name == "guarded_loop" else WAYS
    plan = [(way, seed) for way in ways for seed in range(seeds)]
    jobs = [
        job
        for way, seed in plan
        for job in jobs_of(
            tried, place / f"{way == WAYS[0]}-{seed}", held=way == WAYS[0], seed=seed
        )
    ]
    done = iter(perform(jobs, preload=tried.preload, timeout_s=3600))
    told: dict[str, Any] = {}
    for way, seed in plan:
        three = Three(straight=next(done), killed=next(done), resumed=next(done))
        problems = problems_resumed(tried, three)
        if told.get(way, {}).get("problems"):
            told[way]["seeds_exact"] += not problems
            continue  # The first seed that shows it is enough to be told of.
        before = told.get(way, {}).get("seeds_exact", 0)
        told[way] = {
            "seeds_exact": before + (not problems),
            "problems": problems,
            "everybit": told_by_everybit(three),
        }
        told[way]["seed"] = seed
    return {"example": tried.name, "script": tried.script, "args": list(tried.args), **told}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[], help="names of examples")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    known = {}
    if args.only and args.out and args.out.exists():  # The others stay as they are kept.
        known = {each["example"]: each for each in json.loads(args.out.read_text())["results"]}
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    began = time.time()
    results = []
    for each in (*REPERTOIRE, example("guarded_loop")):
        if each.name in NOT_RESUMED or (args.only and each.name not in args.only):
            continue
        with tempfile.TemporaryDirectory() as place:
            results.append(try_example(each, args.seeds, Path(place)) | {"commit": commit})
        for way in WAYS:
            told = results[-1].get(way)
            if told is not None:
                print(f"{each.name}, {way}: {told['seeds_exact']}/{args.seeds}", end=" ")
                print("; ".join(told["problems"]) or "exact", told["everybit"], flush=True)
    known |= {each["example"]: each for each in results}
    order = [each.name for each in (*REPERTOIRE, example("guarded_loop"))]
    results = sorted(known.values(), key=lambda each: order.index(each["example"]))
    summary = {
        "what": "examples killed after step 10 of 20 and gone on with, against 20 steps",
        "commit": commit,
        "seeds": list(range(args.seeds)),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "duration_s": round(time.time() - began),
        "not_resumed": NOT_RESUMED,
        "examples": len(results),
        "exact_with_the_guard": sum(r[WAYS[0]]["seeds_exact"] == args.seeds for r in results),
        "exact_by_itself": sum(
            r[WAYS[1]]["seeds_exact"] == args.seeds for r in results if WAYS[1] in r
        ),
        "results": results,
    }
    if args.out:
        args.out.write_text(json.dumps(summary, indent=1) + "\n")
    print({key: value for key, value in summary.items() if key != "results"})


if __name__ == "__main__":
    main()

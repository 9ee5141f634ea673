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
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from bench.kept import commit
from tests.examples.harness import Performance, perform
from tests.examples.repertoire import REPERTOIRE, Example, example
from tests.examples.resuming import (
    NOT_RESUMED,
    Three,
    jobs_of,
    problems_resumed,
    told_by_everybit,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Ways of saving: with the Guard's state, and as the script does alone.
WAYS = ("with the Guard's state", "by itself")
#: The example that saves its own Guard's state.
OWN = "guarded_loop"
EVERY = (*REPERTOIRE, example(OWN))
#: Examples that are tried in forks of one process.
TOGETHER = 6


def try_examples(examples: list[Example], seeds: int, place: Path) -> list[dict[str, Any]]:
    """Run examples straight, killed and resumed in both ways; return what came of each."""
    jobs = []
    for each in examples:
        for seed in range(seeds):
            there = place / f"{each.name}-{seed}"
            jobs += jobs_of(each, there / "held", seed=seed)
            if each.name != OWN:
                # The straight run is the same, whatever is saved on the way.
                jobs += jobs_of(each, there / "alone", held=False, seed=seed)[1:]
    done = iter(perform(jobs, preload=examples[0].preload, timeout_s=3600))
    return [_judge(each, done, seeds) for each in examples]


def _judge(tried: Example, done: Iterator[Performance], seeds: int) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for seed in range(seeds):
        straight = next(done)
        for way in WAYS[: 1 if tried.name == OWN else 2]:
            three = Three(straight=straight, killed=next(done), resumed=next(done))
            problems = problems_resumed(tried, three)
            kept = told.setdefault(way, {"seeds_exact": 0, "problems": []})
            kept["seeds_exact"] += not problems
            if not kept["problems"]:  # The first seed that shows one is enough to be told of.
                kept |= {"problems": problems, "everybit": told_by_everybit(three), "seed": seed}
    return {"example": tried.name, "script": tried.script, "args": list(tried.args), **told}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[], help="names of examples")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    known: dict[str, dict[str, Any]] = {}
    summary: dict[str, Any] = {}
    if args.only and args.out and args.out.exists():  # The others stay as they are kept.
        known = {each["example"]: each for each in json.loads(args.out.read_text())["results"]}
    measured = commit()
    began = time.time()
    results: list[dict[str, Any]] = []
    rounds: dict[tuple[str, ...], list[Example]] = {}
    for each in EVERY:
        if each.name not in NOT_RESUMED and (not args.only or each.name in args.only):
            rounds.setdefault(each.preload, []).append(each)
    for examples in rounds.values():
        for start in range(0, len(examples), TOGETHER):
            part = examples[start : start + TOGETHER]
            with tempfile.TemporaryDirectory() as place:
                fresh = try_examples(part, args.seeds, Path(place))
            results += [result | {"commit": measured} for result in fresh]
            for result in fresh:
                for way in WAYS:
                    if way in result:
                        told = "; ".join(result[way]["problems"]) or "exact"
                        print(result["example"], way, told, result[way]["everybit"], flush=True)
            if args.out:
                known |= {each["example"]: each for each in results}
                summary = _summary(known, measured, args.seeds, time.time() - began)
                args.out.write_text(json.dumps(summary, indent=1) + "\n")
    print({key: value for key, value in summary.items() if key != "results"})


def _summary(
    known: dict[str, dict[str, Any]], commit: str, seeds: int, duration_s: float
) -> dict[str, Any]:
    order = [each.name for each in EVERY]
    results = sorted(known.values(), key=lambda each: order.index(each["example"]))
    return {
        "what": "examples killed after step 10 of 20 and gone on with, against 20 steps",
        "commit": commit,
        "seeds": list(range(seeds)),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "duration_s": round(duration_s),
        "not_resumed": NOT_RESUMED,
        "examples": len(results),
        **{
            f"exact {way}": sum(
                each[way]["seeds_exact"] == seeds for each in results if way in each
            )
            for way in WAYS
        },
        "results": results,
    }


if __name__ == "__main__":
    main()

"""Every example under a Guard, clean and with flips planted: what is found, what differs.

    python -m bench.examples_campaign --seeds 3 --out bench/results/examples.json

For each example and seed three runs in processes of their own: without a Guard; with one; with one
that heals, while a bit of a weight, of the optimizer's state, of a buffer and of a gradient is
flipped, each at a step of its own. The flips go past torch. A clean run must have no finding and
print and train the same to the last bit. Each flip must be found: its tensor, element, bit and
step; and the healed run must train to the last bit what the run without a flip does.
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
from tests.examples.harness import Job, Performance, perform, problems_alone, problems_healed
from tests.examples.repertoire import REPERTOIRE, Example

ROOT = Path(__file__).parent.parent


def try_examples(examples: list[Example], seeds: int, place: Path) -> list[dict[str, Any]]:
    """Run examples that need the same packages with several seeds; return what came of each."""
    jobs = []
    for example in examples:
        for seed in range(seeds):
            args = example.arguments(seed)
            base = place / f"{example.name}-{seed}"
            config: dict[str, Any] = dict(example.config)
            healing = {**config, "on_finding": "heal"}
            plans = example.plans(seed=seed)
            script = example.path
            jobs += [
                Job(folder=base / "bare", script=script, args=args),
                Job(folder=base / "clean", script=script, args=args, config=config),
                Job(folder=base / "healed", script=script, args=args, config=healing, plans=plans),
            ]
    done = iter(perform(jobs, preload=examples[0].preload, timeout_s=3600))
    return [
        _judge(example, [[next(done) for _ in range(3)] for _ in range(seeds)])
        for example in examples
    ]


def _judge(example: Example, performed: list[list[Performance]]) -> dict[str, Any]:
    problems, planted, found = [], 0, 0
    for seed, (bare, clean, healed) in enumerate(performed):
        wrong = problems_alone(example, bare, clean) + problems_healed(example, bare, healed)
        problems += [f"seed {seed}: {problem}" for problem in wrong]
        planted += len(healed.truths)
        found += sum(healed.finding_of(t, example.slack) is not None for t in healed.truths)
    return {
        "example": example.name,
        "script": example.script,
        "args": list(example.args),
        "steps": example.steps,
        "clean_runs": len(performed),
        "flips": planted,
        "flips_found_and_placed": found,
        "problems": problems,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[], help="names of examples")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    began = time.time()
    results = []
    rounds: dict[tuple[str, ...], list[Example]] = {}
    for example in REPERTOIRE:
        if not args.only or example.name in args.only:
            rounds.setdefault(example.preload, []).append(example)
    for examples in rounds.values():
        for start in range(0, len(examples), 7):
            with tempfile.TemporaryDirectory() as place:
                results += try_examples(examples[start : start + 7], args.seeds, Path(place))
            for result in results[-len(examples[start : start + 7]) :]:
                told = "; ".join(result["problems"]) or "right"
                found = f"{result['flips_found_and_placed']}/{result['flips']}"
                print(f"{result['example']}: {found} {told}", flush=True)
    summary = {
        "what": "examples under a Guard: clean runs, and runs with flips that are healed",
        "commit": commit,
        "seeds": list(range(args.seeds)),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "duration_s": round(time.time() - began),
        "examples": len(results),
        "clean_runs": sum(r["clean_runs"] for r in results),
        "flips": sum(r["flips"] for r in results),
        "flips_found_and_placed": sum(r["flips_found_and_placed"] for r in results),
        "problems": sum(len(r["problems"]) for r in results),
        "results": results,
    }
    if args.out:
        args.out.write_text(json.dumps(summary, indent=1) + "\n")
    print({key: value for key, value in summary.items() if key != "results"})


if __name__ == "__main__":
    main()

"""Every example under a Guard, clean and with flips planted: what is found, what differs.

    python -m bench.examples_campaign --seeds 3 --out bench/results/examples.json

For each example and seed four runs in processes of their own: without a Guard; with one; with one
that traces by module; with one that heals, while a bit of a weight, of the optimizer's state, of a
buffer and of a gradient is flipped, each at a step of its own. The flips go past torch. A clean run
must have no finding, print and train the same to the last bit, and leave the random streams where
they were. Each flip must be found: its tensor, element, bit and step; and the healed run must train
to the last bit what the run without a flip does.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from bench.kept import commit
from tests.examples.harness import Job, Performance, perform, problems_alone, problems_healed
from tests.examples.repertoire import REPERTOIRE, Example

import everybit
from everybit.core.trace_name import parse_trace_name


def try_examples(examples: list[Example], seeds: int, place: Path) -> list[dict[str, Any]]:
    """Run examples that need the same packages with several seeds; return what came of each."""
    jobs = []
    for example in examples:
        for seed in range(seeds):
            args = example.arguments(seed)
            base = place / f"{example.name}-{seed}"
            config: dict[str, Any] = dict(example.config)
            traced = {**config, "trace": "module"}
            healing = {**config, "on_finding": "heal"}
            plans = example.plans(seed=seed)
            script = example.path
            jobs += [
                Job(folder=base / "bare", script=script, args=args),
                Job(folder=base / "clean", script=script, args=args, config=config),
                Job(folder=base / "traced", script=script, args=args, config=traced),
                Job(folder=base / "healed", script=script, args=args, config=healing, plans=plans),
            ]
    done = iter(perform(jobs, preload=examples[0].preload, timeout_s=3600))
    return [
        _judge(example, [[next(done) for _ in range(4)] for _ in range(seeds)])
        for example in examples
    ]


def _judge(example: Example, performed: list[list[Performance]]) -> dict[str, Any]:
    problems, planted, found = [], 0, 0
    sizes = []
    for seed, (bare, clean, traced, healed) in enumerate(performed):
        wrong = problems_alone(example, bare, clean) + problems_healed(example, bare, healed)
        wrong += [f"traced: {problem}" for problem in problems_alone(example, bare, traced)]
        sizes.append(_bytes_an_observation(traced.job.folder / "run"))
        problems += [f"seed {seed}: {problem}" for problem in wrong]
        planted += len(healed.truths)
        found += sum(healed.finding_of(t, example.slack) is not None for t in healed.truths)
    return {
        "example": example.name,
        "script": example.script,
        "args": list(example.args),
        "steps": example.steps,
        "clean_runs": 2 * len(performed),
        "traced_runs": len(performed),
        "traced_values": max(count for count, _ in sizes),
        "bytes_an_observation": round(max(size for _, size in sizes), 1),
        "flips": planted,
        "flips_found_and_placed": found,
        "problems": problems,
    }


def _bytes_an_observation(folder: Path) -> tuple[int, float]:
    """Return how many digests were recorded between batch and update, and the record's share."""
    run = everybit.open_run(folder)
    assert run.damage == ()
    traced = everything = size = 0
    for log in run.logs(0):
        size += log.size_bytes - len(json.dumps(log.header))
        for record in log.steps():
            for table in record.tables:
                everything += len(table.names)
                traced += sum(parse_trace_name(name) is not None for name in table.names)
    return traced, size / max(everything, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[], help="names of examples")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    measured = commit()
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
        "what": "examples under a Guard: clean runs, traced ones, and runs with flips healed",
        "commit": measured,
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

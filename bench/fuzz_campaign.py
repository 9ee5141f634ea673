"""Mutated inputs over all parsers: no exception but everybit's own, no hang, no unbounded memory.

    python -m bench.fuzz_campaign --inputs 1000000 --out bench/results/fuzz.json

Every input follows from the seed and its number: which file of the corpus, and how it is changed
(`mutations`). Children read them, each under a bound of CPU time an input and of memory; the parent
sees which input a child was at when it died or stood still, and goes on behind it. What ran is
written down after each batch, so that a campaign that is stopped early has told the truth.
`--again N` reads one input once more, in this process.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

from bench import kept
from bench.fuzz_child import CPU_SECONDS, MEMORY_MIB, Fuzzer
from bench.kept import commit
from bench.table import write_section

_BATCH: Final = 10_000
_MAX_KEPT: Final = 100
#: Share of the inputs that meet their parser alone; the others all that is built on it.
PARSED_ONLY: Final = 0.9
#: A child that has not begun a new input for so long stands still (the machine may be busy).
_STANDSTILL_S: Final = 300.0


def run_child(
    corpus: Path, scratch: Path, seed: int, first: int, count: int, parsed_only: float
) -> dict[str, Any]:
    """Read inputs `[first, first + count)` in a child; returns what it told, and where it ended."""
    progress = scratch / "progress"
    progress.write_text(str(first), encoding="utf-8")
    told = scratch / "told.json"
    told.unlink(missing_ok=True)
    command = [sys.executable, "-m", "bench.fuzz_child", str(corpus), str(scratch)]
    command += [str(seed), str(first), str(count), str(parsed_only)]
    child = subprocess.Popen(command, stderr=subprocess.PIPE)
    at, since = first, time.monotonic()
    killed = ""
    while True:
        try:
            child.wait(timeout=5)
            break
        except subprocess.TimeoutExpired:
            now = _read_progress(progress, at)
            if now != at:
                at, since = now, time.monotonic()
            elif time.monotonic() - since > _STANDSTILL_S:
                child.kill()
                killed = "stood still"
    assert child.stderr is not None
    errors = child.stderr.read().decode(errors="replace")
    result: dict[str, Any] = {"failures": [], "next": first + count}
    if told.exists():
        result |= json.loads(told.read_text(encoding="utf-8"))
    if child.returncode or killed:
        at = _read_progress(progress, at)
        why = killed or f"the child ended with {child.returncode}"
        result["failures"].append({"input": at, "what": why, "stderr": errors[-2000:]})
        result["next"] = at + 1
    return result


def _read_progress(path: Path, otherwise: int) -> int:
    try:
        return int(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return otherwise


def campaign(
    inputs: int,
    seed: int,
    *,
    out: Path | None = None,
    place: Path | None = None,
    until: float = 0,
    parsed_only: float = PARSED_ONLY,
) -> dict[str, Any]:
    """Read `inputs` mutated inputs, or as many as there is time for.

    Args:
        inputs: How many.
        seed: They follow from it.
        out: A file that keeps what has run so far.
        place: Where scratch files lie.
        until: `time.time()` after which no batch begins; 0 for none.
        parsed_only: Share of the inputs that meet their parser alone.
    """
    began = time.perf_counter()
    result: dict[str, Any] = {
        "commit": commit(),
        "seed": seed,
        "parsed_only": parsed_only,
        "asked": inputs,
        "done": 0,
        "bounds": {"cpu_seconds_an_input": CPU_SECONDS, "memory_mib": MEMORY_MIB},
        "num_failures": 0,
        "failures": [],
    }
    counts: dict[str, Counter[str]] = {"entries": Counter(), "statuses": Counter()}
    with tempfile.TemporaryDirectory(dir=place) as top:
        corpus, scratch = Path(top) / "corpus", Path(top) / "scratch"
        subprocess.run([sys.executable, "-m", "bench.fuzz_corpus", str(corpus)], check=True)
        scratch.mkdir()
        at = 0
        while at < inputs and not (until and time.time() > until):
            count = min(_BATCH, inputs - at)
            told = run_child(corpus, scratch, seed, at, count, parsed_only)
            at = told["next"]
            result["done"] = at
            result["num_failures"] += len(told["failures"])
            result["failures"] = (result["failures"] + told["failures"])[:_MAX_KEPT]
            for key, total in counts.items():
                total.update(told.get(key, {}))
                result[key] = dict(sorted(total.items()))
            for key in ("peak_growth_mib", "slowest_cpu_s"):
                result[key] = max(result.get(key, 0.0), told.get(key, 0.0))
            result["cpu_seconds"] = round(
                result.get("cpu_seconds", 0.0) + told.get("cpu_seconds", 0.0), 1
            )
            result["seconds"] = round(time.perf_counter() - began, 1)
            kept.write_result(result, out)
            print(f"{at} of {inputs}: {result['num_failures']} failures", file=sys.stderr)
    return result


def merge(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Add up campaigns of different seeds."""
    total: dict[str, Any] = {"done": 0, "num_failures": 0, "failures": [], "runs": []}
    sums: dict[str, Counter[str]] = {"entries": Counter(), "statuses": Counter()}
    for run in runs:
        total["done"] += run["done"]
        total["num_failures"] += run["num_failures"]
        total["failures"] += [{"seed": run["seed"], **failure} for failure in run["failures"]]
        for key, counted in sums.items():
            counted.update(run[key])
        kept = ("commit", "seed", "parsed_only", "asked", "done", "seconds", "bounds")
        total["runs"].append({key: run[key] for key in kept})
    for key in ("peak_growth_mib", "slowest_cpu_s"):
        total[key] = max(run[key] for run in runs)
    return {**total, **{key: dict(sorted(counted.items())) for key, counted in sums.items()}}


def section(total: dict[str, Any]) -> str:
    """Campaigns as a section of the docs."""
    runs = "; ".join(
        f"seed {run['seed']}: {run['done']:,} of {run['asked']:,} at commit {run['commit']}"
        for run in total["runs"]
    )
    rows = ["| file | mutated inputs |", "|---|---|"]
    rows += [f"| {name} | {count:,} |" for name, count in total["entries"].items()]
    return (
        f"## Fuzzing\n\n`python -m bench.fuzz_campaign`: {total['done']:,} mutated inputs "
        f"({runs}), {total['num_failures']} failures. A failure is an exception that is not "
        f"everybit's own, more than {CPU_SECONDS:.0f} s of CPU time for an input of a few KB (the "
        f"slowest took {total['slowest_cpu_s']} s), or growth of the process by more than "
        f"{MEMORY_MIB} MiB (the most was {total['peak_growth_mib']} MiB). Repair's search of an "
        "archive's records, which ends by the clock, is cut short here.\n\n" + "\n".join(rows)
    )


def main() -> int:
    """Run the campaign from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=0, help="begin no batch after so long")
    parser.add_argument("--place", type=Path, help="where scratch files lie")
    parser.add_argument("--again", type=int, action="append", help="read one input, here")
    kept.add_options(parser)
    options = parser.parse_args()
    if options.merge:
        total = merge(kept.read_parts(options.merge))
        kept.write_result(total, options.out)
        if options.write:
            write_section("fuzz", section(total))
        return int(bool(total["num_failures"]))
    if options.again:
        with tempfile.TemporaryDirectory(dir=options.place) as top:
            corpus, scratch = Path(top) / "corpus", Path(top) / "scratch"
            subprocess.run([sys.executable, "-m", "bench.fuzz_corpus", str(corpus)], check=True)
            scratch.mkdir()
            fuzzer = Fuzzer(corpus, scratch, options.seed, PARSED_ONLY)
            for number in options.again:
                print(number, fuzzer.describe(number))
                fuzzer.read(number)
        return 0
    until = time.time() + 60 * options.minutes if options.minutes else 0
    result = campaign(
        options.inputs, options.seed, out=options.out, place=options.place, until=until
    )
    if options.write:
        write_section("fuzz", section(merge([result])))
    print({key: value for key, value in result.items() if key not in ("failures", "entries")})
    for failure in result["failures"][:20]:
        print(failure)
    return int(bool(result["num_failures"]))


if __name__ == "__main__":
    sys.exit(main())

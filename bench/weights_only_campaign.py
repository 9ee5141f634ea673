"""The model of `torch.load(weights_only=True)` against torch itself, over mutated files.

    python -m bench.weights_only_campaign --files 100000 --out bench/results/weights-only.json

What must never happen: the model accepts a file (so no finding tells it) and torch raises. What
torch accepts though the model refuses is put into classes (`weights_only_classes`). Every file
follows from the seed and its number. Torch reads them in children with a bound of memory, and of
time a file; where a child dies, the parent knows which file it was at, and goes on behind it.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

from bench import kept
from bench.kept import commit
from bench.table import write_section
from bench.weights_only_classes import REASONS, reason_of

_BATCH: Final = 10_000
_STANDSTILL_S: Final = 300.0
_MAX_KEPT: Final = 100


def run_child(scratch: Path, seed: int, first: int, count: int) -> dict[str, Any]:
    """Compare files `[first, first + count)` in a child; returns what it told, and where it ended.

    A child that dies is begun again over the files before the one it died at.
    """
    progress, told = scratch / "progress", scratch / "told.json"
    progress.write_text(f"{first} 0", encoding="utf-8")
    told.unlink(missing_ok=True)
    command = [sys.executable, "-m", "bench.weights_only_child", str(scratch)]
    child = subprocess.Popen([*command, str(seed), str(first), str(count)], stderr=subprocess.PIPE)
    at, since = progress.read_text(encoding="utf-8"), time.monotonic()
    while True:
        try:
            _, errors = child.communicate(timeout=5)
            break
        except subprocess.TimeoutExpired:
            now = progress.read_text(encoding="utf-8")
            if now != at:
                at, since = now, time.monotonic()
            elif time.monotonic() - since > _STANDSTILL_S:
                child.kill()
    if told.exists():
        result: dict[str, Any] = json.loads(told.read_text(encoding="utf-8"))
        return {**result, "next": first + count, "died": []}
    number, accepted = map(int, (progress.read_text(encoding="utf-8") or f"{first} 0").split())
    death = {
        "number": number,
        "accepted_by_the_model": bool(accepted),
        "what": f"the child ended with {child.returncode}",
        "stderr": errors.decode(errors="replace")[-1000:],
    }
    if number == first:
        return {"next": number + 1, "died": [death]}
    before = run_child(scratch, seed, first, number - first)
    return {**before, "next": number + 1, "died": [*before["died"], death]}


def campaign(
    files: int, seed: int, *, out: Path | None = None, place: Path | None = None, until: float = 0
) -> dict[str, Any]:
    """Compare over `files` mutated files, or as many as there is time for.

    Args:
        files: How many.
        seed: They follow from it.
        out: A file that keeps what has run so far.
        place: Where scratch files lie.
        until: `time.time()` after which no batch begins; 0 for none.
    """
    import torch

    began = time.perf_counter()
    counts: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    examples: dict[str, int] = {}
    result: dict[str, Any] = {
        "commit": commit(), "torch": torch.__version__, "python": platform.python_version(),
        "seed": seed, "asked": files, "done": 0, "broken": [], "died": [],
    }  # fmt: skip
    with tempfile.TemporaryDirectory(dir=place) as top:
        at = 0
        while at < files and not (until and time.time() > until):
            told = run_child(Path(top), seed, at, min(_BATCH, files - at))
            at = told["next"]
            counts.update(told.get("counts", {}))
            refused.update(told.get("refused_though_accepted", {}))
            examples = {**told.get("examples", {}), **examples}
            broken = told.get("broken", [])
            broken += [death for death in told["died"] if death["accepted_by_the_model"]]
            result["broken"] = (result["broken"] + broken)[:_MAX_KEPT]
            result["died"] = (result["died"] + told["died"])[:_MAX_KEPT]
            result |= {"done": at, "counts": dict(counts), **explained(refused, examples)}
            result["seconds"] = round(time.perf_counter() - began, 1)
            kept.write_result(result, out)
            print(f"{at} of {files}: {len(result['broken'])} broken", file=sys.stderr)
    return result


def explained(refused: Counter[str], examples: dict[str, int]) -> dict[str, Any]:
    """Put the refusals of files that torch accepts into their classes."""
    classes: dict[str, dict[str, Any]] = {}
    for refusal, count in refused.most_common():
        held = classes.setdefault(reason_of(refusal), {"files": 0, "refusals": {}})
        held["files"] += count
        held["refusals"][refusal] = {"files": count, "example": examples[refusal]}
    unexplained = classes.pop("", {"files": 0, "refusals": {}})
    return {
        "refused_though_accepted": refused.total(),
        "classes": classes,
        "unexplained": unexplained["refusals"],
    }


def merge(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Add up campaigns of different seeds."""
    counts: Counter[str] = Counter()
    classes: Counter[str] = Counter()
    total: dict[str, Any] = {"done": 0, "broken": [], "died": [], "unexplained": {}, "runs": []}
    for run in runs:
        total["done"] += run["done"]
        for key in ("broken", "died"):
            total[key] += [{"seed": run["seed"], **item} for item in run[key]]
        total["unexplained"] |= run["unexplained"]
        counts.update(run["counts"])
        classes.update({name: held["files"] for name, held in run["classes"].items()})
        total["runs"].append(run)
    total["refused_though_accepted"] = sum(run["refused_though_accepted"] for run in runs)
    return {**total, "counts": dict(counts), "classes": dict(classes.most_common())}


def section(total: dict[str, Any]) -> str:
    """Campaigns as a section of the docs."""
    runs = "; ".join(
        f"seed {run['seed']}: {run['done']:,} at commit {run['commit']}" for run in total["runs"]
    )
    counts = total["counts"]
    rows = ["| refused by the model, accepted by torch | files | why |", "|---|---|---|"]
    why = {reason.name: reason.why for reason in REASONS}
    rows += [f"| {name} | {count:,} | {why[name]} |" for name, count in total["classes"].items()]
    return (
        f"## The model of weights_only against torch\n\n`python -m bench.weights_only_campaign`: "
        f"{total['done']:,} mutated files ({runs}; torch {total['runs'][0]['torch']}). Torch "
        f"accepts {counts.get('torch accepts', 0):,} of them, the model "
        f"{counts.get('model accepts', 0):,}. Accepted by the model and refused by torch: "
        f"{len(total['broken'])}. Of the damaged ones {counts.get('asked scan', 0):,} were given "
        f"to `scan` too, which called {counts.get('clean for scan too', 0)} clean. Accepted "
        "by torch and refused by the model: "
        f"{total['refused_though_accepted']:,}, all in these classes:\n\n" + "\n".join(rows)
    )


def main() -> int:
    """Run the campaign from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=0, help="begin no batch after so long")
    parser.add_argument("--place", type=Path, help="where scratch files lie")
    kept.add_options(parser)
    options = parser.parse_args()
    if options.merge:
        total = merge(kept.read_parts(options.merge))
        kept.write_result(total, options.out)
    else:
        until = time.time() + 60 * options.minutes if options.minutes else 0
        run = campaign(
            options.files, options.seed, out=options.out, place=options.place, until=until
        )
        total = merge([run])
    if options.write:
        write_section("weights-only", section(total))
    shown = ("done", "counts", "classes", "refused_though_accepted", "unexplained", "broken")
    print({key: total[key] for key in shown})
    return int(bool(total["broken"] or total["unexplained"]))


if __name__ == "__main__":
    sys.exit(main())

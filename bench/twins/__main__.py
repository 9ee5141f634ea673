"""Twins under test: one planted difference each, and what `diff` says.

    python -m bench.twins [--seeds 0,1,2,3,4] [--only TEXT] [--trace module,step] [--out FILE]
    python -m bench.twins --merge PART.json... [--write]

Every answer is judged: the kind, the step, and the module where modules are traced and the
difference lies in one. Parts of a campaign are joined by `--merge`, a later part in the place of an
earlier one; `--write` puts the table into `docs/benchmarks.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

# Two threads on a busy machine otherwise wait for each other by spinning.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "0")

import torch
from bench.kept import commit
from bench.twins.campaign import Answer, run_all
from bench.twins.kinds import KINDS
from bench.twins.table import markdown, summary, write_section

RESULTS = Path(__file__).resolve().parents[1] / "results" / "twins.json"


def main() -> int:
    """Run, keep, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--only", default="")
    parser.add_argument("--trace", default="module,step")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--merge", type=Path, nargs="+")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    if given.merge:
        answers = _joined(given.merge)
        measured = ", ".join(dict.fromkeys(_read(part)["commit"] for part in given.merge))
    else:
        torch.set_num_threads(1)
        kinds = [kind for kind in KINDS if given.only in kind.name]
        seeds = [int(seed) for seed in given.seeds.split(",")]
        measured = commit()
        answers = run_all(kinds, seeds, given.trace.split(","), told=_tell)
    result = {
        "commit": measured,
        "torch": torch.__version__,
        "seeds": sorted({answer.seed for answer in answers}),
        "summary": summary(answers),
        "answers": [answer.to_json() for answer in answers],
    }
    if given.out is not None or not given.only:
        out = given.out or RESULTS
        out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result["summary"], indent=1))
    if given.write:
        write_section(markdown(result))
    return 0


def _read(part):
    return json.loads(part.read_text(encoding="utf-8"))


def _joined(parts) -> list[Answer]:
    answers: dict[tuple[str, int, str], Answer] = {}
    for part in parts:
        for row in _read(part)["answers"]:
            answers[row["kind"], row["seed"], row["trace"]] = Answer(**row)
    order = {kind.name: number for number, kind in enumerate(KINDS)}
    return sorted(answers.values(), key=lambda each: (order[each.kind], each.seed, each.trace))


def _tell(answer) -> None:
    right = answer.right_kind and answer.right_step and answer.right_module is not False
    place = f"{answer.link} {answer.module} step {answer.step}"
    text = f"{answer.kind} ({answer.name}, {answer.trace}, seed {answer.seed}): {answer.said}"
    print(f"{'ok   ' if right else 'WRONG'} {text} {answer.certainty}, {place}", file=sys.stderr)
    if not right:
        print(f"      {answer.why[:300]}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())

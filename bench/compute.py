"""What the checks of computed links cost: replay, spot checks, whole steps twice, replicas; a peer.

    python bench/compute.py [--rounds 12] [--steps 2]

As bench/guard.py: the same GPT, every variant once a round in an order that rotates, ratios to the
bare step of the same process and round, medians and quartiles. A replayed step is measured as such
(`replay_every=1`); at the default one step in `replay_every` is one, which is worked out from it.
`guard` has every check of what is computed off: what a check adds is told over that.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from pathlib import Path
from textwrap import fill

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

from everybit.core.config import Config
from guard import (
    PEER,
    ROOT,
    Variant,
    Workers,
    _commit,
    make_peer_home,
    quartiles,
    rank_environments,
    rows_of,
    spread,
    table,
)
from table import write_section

RESULTS = ROOT / "bench" / "results" / "compute.json"
OFF = {"replay_every": 0, "replicas_every": 0}
FLOAT32 = [
    Variant(name="bare", what="the loop as it is"),
    Variant(name="guard", what="`Guard` with all checks of what is computed off", settings=OFF),
    Variant(name="default", what="`Guard` at its defaults, between replayed steps", settings={}),
    Variant(
        name="replay",
        what="every step replayed: `replay_every=1`",
        settings={**OFF, "replay_every": 1},
    ),
    Variant(
        name="spot", what="`spot_checks=True`, every step", settings={**OFF, "spot_checks": True}
    ),
    Variant(
        name="closure",
        what="`guard.step(fn)`, every step computed twice",
        settings={**OFF, "replay_every": 1},
    ),
]
PEER_PROCESS = [
    Variant(name="bare", what="the loop as it is"),
    Variant(name="sdcguard: a checked step", what="sdcguard: a step that it checks"),
    Variant(name="sdcguard: between", what="sdcguard: a step between these"),
]
BFLOAT16 = [
    Variant(name="bare", what="the loop as it is"),
    Variant(
        name="replay",
        what="every step replayed: `replay_every=1`",
        settings={**OFF, "replay_every": 1},
    ),
    Variant(
        name="spot", what="`spot_checks=True`, every step", settings={**OFF, "spot_checks": True}
    ),
]
RANKS = [
    Variant(name="bare", what="the loop as it is"),
    Variant(name="guard", what="`Guard` with all checks of what is computed off", settings=OFF),
    Variant(
        name="replicas",
        what="replicas and the reduction compared at every step: `replicas_every=1`",
        settings={**OFF, "replicas_every": 1},
    ),
]


def over(workers, name, base="guard"):
    """Return what a variant's CPU time adds to that of another, over the bare step, by round."""
    pairs = zip(workers.ratios(name, "cpu"), workers.ratios(base, "cpu"), strict=True)
    return [more - less for more, less in pairs]


def text_of(sorts, options):
    """Return the page's section, with what was measured."""
    parts = []
    every = Config().replay_every
    if "float32" in sorts:
        workers = sorts["float32"]
        replayed = over(workers, "replay")
        share = 100 * statistics.median(replayed) / every
        parts.append(f"""
A GPT of {workers.facts["parameters"] / 1e6:.1f} million parameters in float32, as above.

{table(rows_of(workers), "within the Guard's functions")}

A replayed step costs {spread(replayed, 2)} bare steps more than one that is not; at the default,
one step in {every}, that is {share:.2f} % of the run. Spot checks add
{spread(over(workers, "spot"), 2)} of a step on each that they are asked for.
""")
    if "bfloat16" in sorts:
        parts.append(f"""
The same under bfloat16 autocast (context 64, batch 2).

{table(rows_of(sorts["bfloat16"]), "within the Guard's functions")}
""")
    if "sdcguard" in sorts:
        workers = sorts["sdcguard"]
        period = int(workers.rows["sdcguard: a checked step"][0]["every"])
        pairs = zip(
            workers.ratios("sdcguard: a checked step", "cpu"),
            workers.ratios("sdcguard: between", "cpu"),
            strict=True,
        )
        mixed = [(one + (period - 1) * other) / period for one, other in pairs]
        parts.append(f"""
{PEER.replace("==", " ")} in an environment of its own, against bare steps of its own process, in
bfloat16, the only formats that it checks; it tests products of `nn.Linear` by checksums, on every
{period}th step by default.

{table(rows_of(workers), "its own")}

At its defaults that is {spread(mixed)} of the bare loop.
""")
    if "ranks" in sorts:
        workers = sorts["ranks"]
        parts.append(f"""
Two ranks of a DistributedDataParallel job over gloo.

{table(rows_of(workers), "within the Guard's functions")}

Comparing replicas adds {100 * statistics.median(over(workers, "replicas")):.2f} % of the bare step.
""")
    text = f"""## Checks of what is computed

`python bench/compute.py --rounds {options.rounds} --steps {options.steps}`, commit {_commit()},
torch {torch.__version__}. Medians over {options.rounds} interleaved rounds, quartiles in brackets.
{"".join(parts)}"""
    return "\n\n".join(
        block if block.lstrip().startswith(("#", "|")) else fill(block.strip(), 100)
        for block in text.split("\n\n")
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--steps", type=int, default=2)
    sorts = {
        "float32": Workers(FLOAT32),
        "bfloat16": Workers(BFLOAT16),
        "sdcguard": Workers(PEER_PROCESS),
        "ranks": Workers(RANKS),
    }
    parser.add_argument("--only", choices=list(sorts), action="append")
    options = parser.parse_args()
    starts = {
        "float32": dict,
        "bfloat16": dict,
        "sdcguard": lambda: {"python": make_peer_home()},
        "ranks": lambda: {"environments": rank_environments()},
    }
    wanted = {name: sorts[name] for name in options.only or sorts}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            for kind, workers in wanted.items():
                workers.start(kind, **starts[kind]())
            for number in range(options.rounds):
                for kind, workers in wanted.items():
                    workers.measure(number, options.steps, folder / kind)
                print(f"round {number + 1}/{options.rounds}", file=sys.stderr)
        finally:
            for workers in wanted.values():
                workers.close()
    text = text_of(wanted, options)
    print(text)
    if options.only:
        return
    write_section("compute", text)
    results = {
        "commit": _commit(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "peer": PEER,
        "rounds": options.rounds,
        "steps": options.steps,
        "ratios": {
            kind: {
                variant.name: {
                    key: quartiles(workers.ratios(variant.name, key, base))
                    for key, base in (("cpu", "cpu"), ("wall", "wall"), ("own_cpu", "cpu"))
                }
                for variant in workers.variants
            }
            for kind, workers in wanted.items()
        },
        "raw": {kind: workers.rows for kind, workers in wanted.items()},
    }
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

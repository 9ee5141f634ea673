"""What the checks of computed links cost: replay, spot checks, whole steps twice, replicas; a peer.

    python bench/compute.py [--rounds 12] [--steps 2]

As bench/guard.py: the same GPT, every variant once a round in an order that rotates, ratios to the
bare step of the same process and round, medians and quartiles. A replayed step is measured as such
(`replay_every=1`); at the default one step in `replay_every` is one, which is worked out from it.
`guard` has every check of what is computed off: what a check adds is told over that.
"""

from __future__ import annotations

import json
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
    PEER_PROCESS,
    ROOT,
    Variant,
    Workers,
    measure_in_turn,
    options_of,
    results_of,
    rows_of,
    spread,
    table,
)
from kept import commit
from table import write_section

RESULTS = ROOT / "bench" / "results" / "compute.json"
OFF = {"replay_every": 0, "replicas_every": 0}
FLOAT32 = [
    Variant(name="bare", what="the loop as it is"),
    Variant(name="guard", what="`Guard` with all checks of what is computed off", settings=OFF),
    Variant(name="default", what="`Guard` at its defaults, between replayed steps", settings={}),
    Variant(
        name="standby",
        what="the same: within what waits to replay a step that is doubted",
        settings={},
        timed="replay",
    ),
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
    Variant(
        name="replicas alone",
        what="the same: within the comparison itself",
        settings={**OFF, "replicas_every": 1},
        timed="replicas",
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
        waiting = 100 * statistics.median(workers.ratios("standby", "own_cpu", "cpu"))
        parts.append(f"""
A GPT of {workers.facts["parameters"] / 1e6:.1f} million parameters in float32, as above.

{table(rows_of(workers), "within the Guard's functions")}

A replayed step costs {spread(replayed, 2)} bare steps more than one that is not; at the default,
one step in {every}, that is {share:.2f} % of the run; between these, what waits to replay a step
that a sensor doubts takes {waiting:.2f} %. Spot checks add {spread(over(workers, "spot"), 2)} of a
step on each that they are asked for.
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
        alone = [100 * each for each in workers.ratios("replicas alone", "own_cpu", "cpu")]
        parts.append(f"""
Two ranks of a DistributedDataParallel job over gloo.

{table(rows_of(workers), "within the Guard's functions")}

Comparing replicas at every step takes {spread(alone, 2)} % of the bare step's CPU time.
""")
    text = f"""## Checks of what is computed

`python bench/compute.py --rounds {options.rounds} --steps {options.steps}`, commit {commit()},
torch {torch.__version__}. Medians over {options.rounds} interleaved rounds, quartiles in brackets.
{"".join(parts)}"""
    return "\n\n".join(
        block if block.lstrip().startswith(("#", "|")) else fill(block.strip(), 100)
        for block in text.split("\n\n")
    )


def main():
    sorts = {
        "float32": Workers(FLOAT32),
        "bfloat16": Workers(BFLOAT16),
        "sdcguard": Workers(PEER_PROCESS),
        "ranks": Workers(RANKS),
    }
    options = options_of(__doc__.splitlines()[0], sorts, rounds=12)
    wanted = {name: sorts[name] for name in options.only or sorts}
    with tempfile.TemporaryDirectory() as name:
        measure_in_turn(wanted, options, Path(name))
    text = text_of(wanted, options)
    print(text)
    if options.only:
        return
    write_section("compute", text)
    results = results_of(wanted, options, {"cpu": "cpu", "wall": "wall", "own_cpu": "cpu"})
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

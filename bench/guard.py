"""What the Guard costs: a GPT's training step bare, guarded, under a peer, and as tutorials show.

    python bench/guard.py [--rounds 20] [--steps 2]

Each round measures `--steps` steps in every variant, in an order that rotates from round to round,
and takes the CPU time of the process (all threads) and the wall time. A variant's ratio in a round
is its time over the bare time of the same process in the same round; the tables give medians over
the rounds, and the quartiles. The CPU time within the Guard's own functions (all threads) is
counted directly as well: it does not depend on how steady the machine is.

Sorts of process take turns, one sort at work at a time: the loop in float32; the loop in bfloat16
autocast with everybit, and with sdcguard, which checks nothing in float32, in a virtual environment
of its own that is made here (`.venv-sdcguard`); two ranks of a DistributedDataParallel job.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

from kept import commit
from table import write_section

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results" / "guard.json"
PEER = "sdcguard==0.4.0"
PEER_HOME = ROOT / ".venv-sdcguard"
#: A thread that waits for work uses no CPU time: by default it spins, and whose that is, is chance.
QUIET = {"OMP_WAIT_POLICY": "passive"}
SPINE = {"numerics": False, "gradients": False}


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A way to run the loop.

    Attributes:
        name: Short name, the key in the results.
        what: What the table says.
        settings: Of the Guard; None without one.
        timed: Whose time counts as its own: `guard` or `agreement`.
    """

    name: str
    what: str
    settings: dict | None = None
    timed: str = "guard"


FLOAT32 = [
    Variant(name="bare", what="the loop as it is"),
    Variant(
        name="spine",
        what="`Guard` with `numerics` and `gradients` off: the record, and weights, buffers and "
        "optimizer state at rest",
        settings=SPINE,
    ),
    Variant(name="numerics", what="and `numerics`", settings={**SPINE, "numerics": True}),
    Variant(name="gradients", what="or `gradients`", settings={**SPINE, "gradients": True}),
    Variant(name="guard", what="`Guard` at its defaults (both, `warn`, every step)", settings={}),
    Variant(name="heal", what='`on_finding="heal"`', settings={"on_finding": "heal"}),
    Variant(
        name="shadow",
        what='`on_finding="heal"`, `shadow=True`',
        settings={"on_finding": "heal", "shadow": True},
    ),
    Variant(
        name="isfinite",
        what="`isfinite().all()` of every gradient and parameter, as tutorials show",
    ),
]
BFLOAT16 = [
    Variant(name="bare", what="the loop as it is"),
    Variant(name="guard", what="`Guard` at its defaults, every step", settings={}),
]
PEER_PROCESS = [
    Variant(name="bare", what="the loop as it is"),
    Variant(name="sdcguard: a checked step", what="sdcguard: a step that it checks"),
    Variant(name="sdcguard: between", what="sdcguard: a step between these"),
]
RANKS = [
    Variant(name="bare", what="the loop as it is"),
    Variant(name="warn", what='`on_finding="warn"`: no agreement', settings={}),
    Variant(
        name="stop",
        what='`on_finding="stop"`: the ranks agree at every update',
        settings={"on_finding": "stop"},
        timed="agreement",
    ),
]


@dataclass
class Workers:
    """The processes of one sort, which work at the same time."""

    script = "guard_worker.py"

    variants: list[Variant]
    processes: list[subprocess.Popen] = field(default_factory=list)
    rows: dict[str, list[dict]] = field(default_factory=dict)
    facts: dict = field(default_factory=dict)

    def start(self, kind, *, python=sys.executable, environments=({},)):
        command = [str(python), str(ROOT / "bench" / self.script), kind]
        for more in environments:
            self.processes.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    env={**os.environ, **QUIET, **more},
                )
            )
        self.facts = self._read()[0]
        self.rows = {variant.name: [] for variant in self.variants}

    def _read(self):
        answers = [process.stdout.readline() for process in self.processes]
        if not all(answers):
            sys.exit("a process of the benchmark ended; its error is above")
        return [json.loads(answer) for answer in answers]

    def measure(self, number, num_steps, folder):
        """Measure every variant once, the first one rotating with the round."""
        turn = number % len(self.variants)
        for variant in self.variants[turn:] + self.variants[:turn]:
            request = {
                "variant": variant.name,
                "steps": num_steps,
                "folder": str(folder / f"{variant.name}-{number}"),
                "settings": variant.settings,
                "timed": variant.timed,
            }
            for process in self.processes:
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
            answers = self._read()
            self.rows[variant.name].append(
                {key: statistics.fmean(each[key] for each in answers) for key in answers[0]}
            )

    def close(self):
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            process.wait(timeout=60)

    def ratios(self, name, key, base="cpu"):
        """Return a variant's value over the bare loop's, round by round."""
        return [
            row.get(key, 0.0) / bare[base]
            for row, bare in zip(self.rows[name], self.rows["bare"], strict=True)
        ]


def make_peer_home():
    """Make the peer's environment, with the same torch, unless it is there; return its python."""
    python = PEER_HOME / "bin" / "python"
    if not python.exists():
        venv.create(PEER_HOME, with_pip=True)
    release = torch.__version__.partition("+")[0]
    subprocess.run(
        [python, "-m", "pip", "install", "-q", PEER, f"torch=={release}", f"numpy=={_numpy()}"],
        check=True,
    )
    return python


def _numpy():
    import numpy

    return numpy.__version__


def rank_environments():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": "2",
        "OMP_NUM_THREADS": "1",
    }
    return [{**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(2)]


def quartiles(values):
    if len(values) == 1:
        return values * 3
    return statistics.quantiles(values, n=4, method="inclusive")


#: What the processes of each sort are started with.
STARTS = {
    "float32": dict,
    "bfloat16": dict,
    "sdcguard": lambda: {"python": make_peer_home()},
    "ranks": lambda: {"environments": rank_environments()},
}


def options_of(description, sorts, *, rounds):
    """Read the command line; sorts of processes may be left out."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--only", choices=list(sorts), action="append")
    return parser.parse_args()


def measure_in_turn(wanted, options, folder):
    """Measure sorts of processes round by round, one sort at work at a time."""
    try:
        for kind, workers in wanted.items():
            workers.start(kind, **STARTS[kind]())
        for number in range(options.rounds):
            for kind, workers in wanted.items():
                workers.measure(number, options.steps, folder / kind)
            print(f"round {number + 1}/{options.rounds}", file=sys.stderr)
    finally:
        for workers in wanted.values():
            workers.close()


def results_of(sorts, options, values):
    """Return what a results file holds.

    Args:
        sorts: The processes that were measured.
        options: Of the command line.
        values: Name of each measured value, and the value of the bare loop that it is held to.
    """
    return {
        "commit": commit(),
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
                    for key, base in values.items()
                }
                for variant in workers.variants
            }
            for kind, workers in sorts.items()
        },
        "raw": {kind: workers.rows for kind, workers in sorts.items()},
    }


def main():
    sorts = {
        "float32": Workers(FLOAT32),
        "bfloat16": Workers(BFLOAT16),
        "sdcguard": Workers(PEER_PROCESS),
        "ranks": Workers(RANKS),
    }
    options = options_of(__doc__.splitlines()[0], sorts, rounds=20)
    wanted = {name: sorts[name] for name in options.only or sorts}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measure_in_turn(wanted, options, folder)
        logs = [*(folder / "float32" / f"guard-{options.rounds - 1}").glob("*.log")]
        log_bytes = sum(path.stat().st_size for path in logs) / (options.steps + 1)
    report(wanted, options, log_bytes, partial=bool(options.only))


def spread(values, digits=3):
    low, middle, high = quartiles(values)
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def percent(values):
    return f"{100 * quartiles(values)[1]:.2f} %"


def rows_of(workers, *, own="own_cpu", base="cpu", names=()):
    lines = []
    for variant in workers.variants:
        name = variant.name
        if names and name not in names:
            continue
        share = percent(workers.ratios(name, own, base)) if own in workers.rows[name][0] else ""
        lines.append(
            f"| {variant.what} | {spread(workers.ratios(name, 'cpu'))} "
            f"| {spread(workers.ratios(name, 'wall', 'wall'))} | {share} |"
        )
    return lines


def table(lines, told):
    head = f"| loop | CPU time, times the bare step | wall time | {told} |"
    return "\n".join([head, "|---|---|---|---|", *lines])


def added(workers, name):
    """Return what a variant adds to the spine's own CPU time, over the bare step's, by round."""
    pairs = zip(workers.ratios(name, "own_cpu"), workers.ratios("spine", "own_cpu"), strict=True)
    return [more - spine for more, spine in pairs]


def tell_guard(workers, log_bytes):
    facts = workers.facts
    return f"""
A GPT of {facts["parameters"] / 1e6:.1f} million parameters (6 layers, width 384, context 256,
batch 8, AdamW) in float32, {facts["tensors"]} tensors under test at every step, {facts["threads"]}
threads.

{table(rows_of(workers), "the Guard's own CPU time")}

The last column counts the CPU time of all threads within the Guard's functions, against that of the
bare step; `OMP_WAIT_POLICY=passive` keeps threads from spinning while they wait. To the record and
what is tested at rest, numerics add
{percent(added(workers, "numerics"))} of the bare step, gradients at rest
{percent(added(workers, "gradients"))}, both together {percent(added(workers, "guard"))}. The run
record takes {log_bytes / 1024:.1f} KiB a step, names and environment of a short run included.
"""


def tell_peer(workers, ours):
    every = int(workers.rows["sdcguard: a checked step"][0]["every"])
    both = zip(
        workers.ratios("sdcguard: a checked step", "cpu"),
        workers.ratios("sdcguard: between", "cpu"),
        strict=True,
    )
    mixed = spread([(one + (every - 1) * other) / every for one, other in both])
    lines = [*rows_of(ours, names=("guard",)), *rows_of(workers)[1:]]
    lines.append(
        f"| sdcguard at its defaults, one step in {every}: of the two above | {mixed} | | |"
    )
    return f"""
### Beside a peer

{PEER.replace("==", " ")} asks another question: it tests the arithmetic, by checksums over the
matrix products of every `nn.Linear`, forward and backward, on every {every}th step, and tells where
they leave a band of rounding error. At its defaults it does not look at what is carried between
steps, which is what the Guard tests: the two costs buy different things. It checks 16-bit formats
only, so both run under bfloat16 autocast here (the same model, context 64, batch 2), each against
bare steps of its own process. It is made for GPUs; on a CPU its checks are plain tensor operations.

{table(lines, "its own CPU time")}
"""


def tell_ranks(workers):
    agreement = workers.ratios("stop", "own_cpu"), workers.ratios("stop", "own_wall", "wall")
    return f"""
### Two ranks

The same model under DistributedDataParallel: two ranks over gloo on one machine, a thread each.
Under `stop` and `pause` the ranks agree at every update, before anyone acts.

{table(rows_of(workers), "its own CPU time")}

In the last row it is the agreement's own: {percent(agreement[0])} of the bare step's CPU time, and
{percent(agreement[1])} of its wall time, waiting for the slower rank included.
"""


def text_of(sorts, options, log_bytes):
    """Return the page's section, with what was measured."""
    parts = []
    if "float32" in sorts:
        parts.append(tell_guard(sorts["float32"], log_bytes))
    if {"sdcguard", "bfloat16"} <= set(sorts):
        parts.append(tell_peer(sorts["sdcguard"], sorts["bfloat16"]))
    if "ranks" in sorts:
        parts.append(tell_ranks(sorts["ranks"]))
    text = f"""## The Guard in a training loop

`python bench/guard.py --rounds {options.rounds} --steps {options.steps}`, commit {commit()},
torch {torch.__version__}. Medians over {options.rounds} interleaved rounds, quartiles in brackets.
{"".join(parts)}"""
    blocks = text.split("\n\n")
    return "\n\n".join(
        block if block.lstrip().startswith(("#", "|")) else fill(block, 100) for block in blocks
    )


def report(sorts, options, log_bytes, *, partial):
    """Print the section; write it and the results unless only a part was measured."""
    text = text_of(sorts, options, log_bytes)
    print(text)
    if partial:
        return
    write_section("guard", text)
    values = {"cpu": "cpu", "wall": "wall", "own_cpu": "cpu", "own_wall": "wall"}
    results = results_of(sorts, options, values)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

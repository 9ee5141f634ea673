"""What the Guard costs: a GPT's training step bare, guarded, and with the loop that tutorials show.

    python bench/guard.py [--rounds 20] [--steps 2]

Each round trains the same model `--steps` steps in every variant, in an order that rotates from
round to round, and takes the CPU time of the process (all threads) and the wall time. A variant's
ratio in a round is its time over the bare time of the same round; the table gives medians over the
rounds, and the quartiles. The CPU time that the Guard's own hooks used on the main thread is
counted directly as well: it does not depend on how steady the machine is.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

import everybit
from everybit.drill.gpt import GPT, GPTConfig
from everybit.drill.text import Batches, standard_library_bytes
from everybit.guard.guard import Guard
from table import write_section

CONFIG = GPTConfig(layers=6, width=384, heads=6, context=256, dropout=0.1)
BATCH = 8
RESULTS = Path(__file__).resolve().parent / "results" / "guard.json"
VARIANTS = {
    "bare": "the loop as it is",
    "guard": "`Guard` at its defaults (`warn`, every step)",
    "heal": '`on_finding="heal"`',
    "shadow": '`on_finding="heal"`, `shadow=True`',
    "isfinite": "`isfinite().all()` of every gradient and parameter, as tutorials show",
}


@contextmanager
def guarded(model, optimizer, folder, **settings):
    spent = []
    look = Guard._look

    def timed(self, *args):
        began = time.thread_time()
        try:
            return look(self, *args)
        finally:
            spent.append(time.thread_time() - began)

    Guard._look = timed
    try:
        with everybit.Guard(model, optimizer, run=folder, **settings) as guard:
            yield spent
        assert guard.verdict.ok, guard.verdict.to_json()
    finally:
        Guard._look = look


@contextmanager
def bare(*_args, **_settings):
    yield []


def step(model, optimizer, batches, *, isfinite=False):
    tokens, targets = batches.next()
    optimizer.zero_grad()
    model(tokens, targets).backward()
    if isfinite:
        for parameter in model.parameters():
            assert torch.isfinite(parameter.grad).all()
            assert torch.isfinite(parameter).all()
    optimizer.step()


def measure(name, model, optimizer, batches, steps, folder):
    """Return CPU seconds, wall seconds and the Guard's own main-thread CPU seconds, a step."""
    settings = {
        "guard": {},
        "heal": {"on_finding": "heal"},
        "shadow": {"on_finding": "heal", "shadow": True},
    }.get(name)
    watch = bare if settings is None else guarded
    with watch(model, optimizer, folder, **(settings or {})) as spent:
        step(model, optimizer, batches, isfinite=name == "isfinite")  # marks are made here
        spent.clear()
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(steps):
            step(model, optimizer, batches, isfinite=name == "isfinite")
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        own = sum(spent)
    return cpu / steps, wall / steps, own / steps


def quartiles(values):
    low, middle, high = statistics.quantiles(values, n=4)
    return low, middle, high


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=2)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = GPT(CONFIG)
    optimizer = torch.optim.AdamW(model.parameters())
    batches = Batches(standard_library_bytes(1 << 20), batch=BATCH, context=256, seed=0)
    names = list(VARIANTS)
    rows = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        measure("bare", model, optimizer, batches, 1, "")
        for number in range(options.rounds):
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                place = Path(folder) / f"{name}-{number}"
                rows[name].append(measure(name, model, optimizer, batches, options.steps, place))
            print(f"round {number + 1}/{options.rounds}", file=sys.stderr)
        log = Path(folder) / f"guard-{options.rounds - 1}"
        size = sum(path.stat().st_size for path in log.glob("*.log")) / (options.steps + 1)
    write(rows, options, model, optimizer, size)


def write(rows, options, model, optimizer, log_bytes):
    table = [
        "| loop | CPU time, times the bare step | wall time | the Guard's own CPU time |",
        "|---|---|---|---|",
    ]
    result = {}
    for name, what in VARIANTS.items():
        cpu = quartiles(
            [row[0] / base[0] for row, base in zip(rows[name], rows["bare"], strict=True)]
        )
        wall = quartiles(
            [row[1] / base[1] for row, base in zip(rows[name], rows["bare"], strict=True)]
        )
        own = quartiles(
            [row[2] / base[0] for row, base in zip(rows[name], rows["bare"], strict=True)]
        )
        result[name] = {"cpu": cpu, "wall": wall, "own": own}
        share = f"{100 * own[1]:.2f} %" if own[1] else ""
        table.append(
            f"| {what} | {cpu[1]:.3f} ({cpu[0]:.3f} to {cpu[2]:.3f}) "
            f"| {wall[1]:.3f} ({wall[0]:.3f} to {wall[2]:.3f}) | {share} |"
        )
    tensors = sum(1 for _ in model.parameters()) + 1
    moments = sum(len(state) for state in optimizer.state.values())
    parameters = sum(p.numel() for p in model.parameters())
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    text = f"""## The Guard in a training loop

`python bench/guard.py --rounds {options.rounds} --steps {options.steps}`, commit {commit},
torch {torch.__version__}, {torch.get_num_threads()} threads. A GPT of {parameters / 1e6:.1f}
million parameters (6 layers, width 384, context 256, batch 8, AdamW): {tensors + moments} tensors
under test at every step. Medians over {options.rounds} interleaved rounds, quartiles in brackets.

{chr(10).join(table)}

The last column counts the CPU time within the Guard's hooks on the main thread, against the CPU
time of the bare step on all threads. The run record takes {log_bytes / 1024:.1f} KiB a step, names
and environment of a short run included.
"""
    print(text)
    write_section("guard", text)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(
        json.dumps(
            {
                "commit": commit,
                "torch": torch.__version__,
                "python": platform.python_version(),
                "threads": torch.get_num_threads(),
                "cpus": os.cpu_count(),
                "rounds": options.rounds,
                "steps": options.steps,
                "ratios": result,
                "raw": rows,
            },
            indent=1,
        )
        + "\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()

"""What following loaders costs: the bare loop beside the tracked one, loading only and training.

    python bench/tracking.py [--rounds 9] [--only CASE]

Loops take turns, in an order that rotates from round to round. Of each, two things are taken: the
CPU time of the loop's own thread within `next(iterator)`, a batch, which is where everything is
judged and put on record; and the CPU time of the pass, of all threads and of the workers. The
tables give medians over the rounds and, in brackets, quartiles.

Everything else that a Guard does is left out of what is called tracking: where a model is trained,
a Guard with `samples=False` takes its turn, too.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import resource
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch

import everybit
from everybit.drill.gpt import GPT, GPTConfig
from everybit.guard.contents.delivered import Delivered
from everybit.probe.contents.probe import EVERY, FULL_BATCHES
from guard import ROOT, quartiles, spread
from kept import commit
from loaders import BATCH, IMAGES, SIDE, TOKENS, images, photographs, tensors, tokens
from table import write_section

RESULTS = ROOT / "bench" / "results" / "tracking.json"
VARIANTS = ("bare", "guard", "tracked")
SETTINGS = {"guard": {"samples": False}, "tracked": {}}


def gpt():
    model = GPT(GPTConfig(layers=6, width=384, heads=6, context=TOKENS, dropout=0.1))
    return model, lambda batch: model(*batch)


def cnn():
    sizes = (3, 16, 32, 64)
    parts = []
    for number, (inside, outside) in enumerate(itertools.pairwise(sizes)):
        parts += [torch.nn.Conv2d(inside, outside, 3, stride=2 if number else 4)]
        parts += [torch.nn.BatchNorm2d(outside), torch.nn.ReLU()]
    parts += [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(64, 10)]
    model = torch.nn.Sequential(*parts)
    return model, lambda batch: torch.nn.functional.cross_entropy(model(batch[0]), batch[1])


@dataclass(frozen=True)
class Case:
    """A loader, with a model where it is trained on.

    Attributes:
        what: What the table says.
        loader: Makes the loader of so many batches.
        num_batches: Batches of a pass.
        model: Makes the model; None where batches are only loaded.
        rounds: Rounds are divided by this.
    """

    what: str
    loader: object
    num_batches: int
    model: object = None
    rounds: int = 1


CASES = {
    "tensors": Case(f"tensors in memory, {BATCH} x {TOKENS} tokens, no workers", tensors, 640),
    "tokens": Case(f"dictionaries of tokens, {BATCH} x {TOKENS}, 2 workers", tokens, 320),
    "images": Case(f"images, {IMAGES} x 3 x {SIDE} x {SIDE}, 2 workers", images, 32, rounds=3),
    "photographs": Case(
        f"JPEG files, decoded and cropped, {IMAGES} x 3 x {SIDE} x {SIDE}, 2 workers",
        photographs, 48, rounds=3,
    ),
    "gpt": Case("a GPT on the tensors in memory", tensors, 3, gpt, 3),
    "cnn": Case("a small CNN on the images", images, 18, cnn, 3),
    "cnn-photographs": Case("a small CNN on the JPEG files", photographs, 18, cnn, 3),
}  # fmt: skip


@dataclass
class Rows:
    """What was measured of one case, by variant, a row a round."""

    facts: dict = field(default_factory=dict)
    rows: dict = field(default_factory=lambda: {name: [] for name in VARIANTS})

    def of(self, variant, key):
        return [row[key] for row in self.rows[variant] if row.get(key) is not None]

    def added(self, key, variant="tracked", base="bare"):
        """Return what a variant adds to another, round by round."""
        pairs = zip(self.of(variant, key), self.of(base, key), strict=True)
        return [more - less for more, less in pairs]

    def ratios(self, variant, key, base="bare"):
        pairs = zip(self.of(variant, key), self.of(base, key), strict=True)
        return [more / less for more, less in pairs]


def cpu_seconds():
    """Return the CPU time of all threads, and of the workers that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def one_pass(loader, train):
    """Go through a loader once; returns what it took. A first step that trains is not counted."""
    spent = []
    began = cpu_seconds()
    iterator = iter(loader)
    while True:
        before = time.thread_time()
        batch = next(iterator, None)
        spent.append(time.thread_time() - before)
        if batch is None:
            break
        if train is not None:
            train(batch)
            if len(spent) == 1:
                began = cpu_seconds()
    del iterator, batch
    spent = spent[1:-1]  # Workers are started in the first call, and ended in the last.
    first = spent[: FULL_BATCHES - 1]
    later = spent[FULL_BATCHES - 1 :]
    return {
        "cpu": (cpu_seconds() - began) / len(spent),
        "first": statistics.median(first),
        # All of them count: one in so many has words of all its samples.
        "later": statistics.fmean(trimmed(later)) if later else None,
        "all": statistics.fmean(trimmed(spent)),
    }


def trimmed(values):
    """Leave out the few that were interrupted: the highest hundredth."""
    return sorted(values)[: max(1, len(values) - len(values) // 100)]


class Used:
    """Counts the CPU time that a delivered batch costs where a model gets it."""

    def __init__(self):
        self.seconds = 0.0
        self._original = Delivered.use

    def __enter__(self):
        original = self._original

        def use(delivered, *args):
            before = time.thread_time()
            try:
                return original(delivered, *args)
            finally:
                self.seconds += time.thread_time() - before

        Delivered.use = use
        return self

    def __exit__(self, *_):
        Delivered.use = self._original


def trained(case):
    """Return model and optimizer, and what makes a step; a model that is not trained for none."""
    if case.model is None:
        model = torch.nn.Linear(1, 1)
        return model, torch.optim.SGD(model.parameters()), None
    model, loss_of = case.model()
    optimizer = torch.optim.AdamW(model.parameters())

    def train(batch):
        optimizer.zero_grad()
        loss_of(batch).backward()
        optimizer.step()

    return model, optimizer, train


def measure(case, rounds, place):
    """Return what each variant of a case took, round by round."""
    torch.manual_seed(0)
    found = Rows()
    loader = case.loader(case.num_batches)
    model, optimizer, train = trained(case)
    found.facts["parameters"] = sum(each.numel() for each in model.parameters())
    variants = VARIANTS if case.model is not None else (VARIANTS[0], VARIANTS[2])
    one_pass(case.loader(3), train)
    for number in range(max(3, rounds // case.rounds)):
        turn = number % len(variants)
        for name in variants[turn:] + variants[:turn]:
            if name == "bare":
                found.rows[name].append(one_pass(loader, train))
                continue
            folder = place / f"{name}-{number}"
            settings = {"replay_every": 0, **SETTINGS[name], "run": folder}
            with Used() as used, everybit.Guard(model, optimizer, **settings) as guard:
                row = one_pass(loader, train)
            for finding in guard.findings:  # There is nothing to be found: a false alarm.
                print(f"{case.what}: {finding.message}", file=sys.stderr)
            row["use"] = used.seconds / case.num_batches
            found.rows[name].append(row)
        print(f"{case.what}: round {number + 1}", file=sys.stderr)
    return found


def micro(values):
    return spread([1e6 * each for each in values], 0)


def loading_table(found):
    told = f"tracking adds, the first {FULL_BATCHES} batches | and later"
    lines = [
        f"| loader | the loop's thread, microseconds a batch | {told} | CPU time, times bare |",
        "|---|---|---|---|---|",
    ]
    for name, rows in found.items():
        if CASES[name].model is None:
            later = micro(rows.added("later")) if rows.of("bare", "later") else ""
            lines.append(
                f"| {CASES[name].what} | {micro(rows.of('bare', 'all'))} "
                f"| {micro(rows.added('first'))} | {later} "
                f"| {spread(rows.ratios('tracked', 'cpu'))} |"
            )
    return "\n".join(lines)


def of_step(rows):
    """Return what tracking adds to the loop's thread, over the CPU time of the bare step."""
    use = rows.of("tracked", "use")
    base = statistics.median(rows.of("bare", "cpu"))
    return [(more + used) / base for more, used in zip(rows.added("all"), use, strict=True)]


def training_table(found):
    told = "CPU time, times bare: a Guard with `samples=False` | and with tracking"
    lines = [
        f"| training | a step's CPU time, ms | tracking adds to the loop's thread | {told} |",
        "|---|---|---|---|---|",
    ]
    for name, rows in found.items():
        if CASES[name].model is not None:
            size = rows.facts["parameters"]
            told = f"{size / 1e6:.1f} million" if size >= 1e5 else f"{size:,}"
            lines.append(
                f"| {CASES[name].what}, {told} parameters "
                f"| {1e3 * statistics.median(rows.of('bare', 'cpu')):.0f} "
                f"| {spread([100 * each for each in of_step(rows)], 2)} % of the step "
                f"| {spread(rows.ratios('guard', 'cpu'))} "
                f"| {spread(rows.ratios('tracked', 'cpu'))} |"
            )
    return "\n".join(lines)


def least_step(found):
    """Return milliseconds of a step of which tracking the tensors in memory is a hundredth."""
    rows = found["tensors"]
    return [100 * 1e3 * statistics.median(rows.added(key)) for key in ("first", "later")]


def more_cpu(rows):
    """Return how much more CPU time a tracked pass takes, in percent, and in ms a batch."""
    percent = 100 * (statistics.median(rows.ratios("tracked", "cpu")) - 1)
    return f"{percent:.1f} % ({1e3 * statistics.median(rows.added('cpu')):.1f} ms a batch)"


def text_of(found, options):
    first, later = least_step(found)
    steps = [statistics.median(of_step(found[name])) for name in found if CASES[name].model]
    highest = 100 * max(steps)
    decoded, copied = more_cpu(found["photographs"]), more_cpu(found["images"])
    text = f"""## Following loaders

`python bench/tracking.py --rounds {options.rounds}`, commit {commit()}, torch {torch.__version__},
{torch.get_num_threads()} threads. Medians over interleaved rounds, quartiles in brackets.

What a Guard adds where it follows a loader: in the loop's own thread, where a batch is put on
record and judged, and in all processes together, workers and hashing included. The first
{FULL_BATCHES} batches of a pass (64 MiB at most) have words of all their samples, later ones one
batch in {EVERY}.

{loading_table(found)}

{training_table(found)}

The target is 1 % of a step or 2 % of loading. In the trainings above the loop's thread pays
{highest:.2f} % of a step at most. Loading alone, in all processes together: {decoded} more
where JPEG files are decoded, in passes of {CASES["photographs"].num_batches} batches, and
{copied} where as many images only become numbers, in passes of {CASES["images"].num_batches};
the first batches have all words, so a longer pass costs less. Of batches of more than 1 MiB
only parts are read again, and all bytes of about one in {EVERY}: the cost is a matter of
batches, hardly of their size, and loading stays within 2 % where a batch takes long enough to
make. Where small batches are copied out of memory it does not: beside a loader that does
nothing else, in the loop's own process, tracking is within 1 % of steps of {first:.0f} ms and
more while all samples have words, and of {later:.0f} ms and more later."""
    blocks = text.split("\n\n")
    return "\n\n".join(
        block if block.lstrip().startswith(("#", "|")) else fill(block, 100) for block in blocks
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", choices=list(CASES), action="append")
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as name:
        for case in options.only or CASES:
            found[case] = measure(CASES[case], options.rounds, Path(name) / case)
    if options.only:
        print(loading_table(found), training_table(found), sep="\n\n")
        return
    text = text_of(found, options)
    print(text)
    write_section("tracking", text)
    results = {
        "commit": commit(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "rounds": options.rounds,
        "added_us": {
            name: {
                key: quartiles([1e6 * each for each in rows.added(key)])
                for key in ("first", "later", "all")
                if rows.of("bare", key)
            }
            for name, rows in found.items()
        },
        "cpu_ratio": {
            name: {
                variant: quartiles(rows.ratios(variant, "cpu"))
                for variant in VARIANTS[1:]
                if rows.rows[variant]
            }
            for name, rows in found.items()
        },
        "of_step": {
            name: quartiles(of_step(rows))
            for name, rows in found.items()
            if CASES[name].model is not None
        },
        "raw": {name: rows.rows for name, rows in found.items()},
    }
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

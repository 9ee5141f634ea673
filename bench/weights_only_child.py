"""Hold the model against torch, one mutated file after another, in a process with bounds.

    python -m bench.weights_only_child SCRATCH SEED FIRST COUNT

The parent reads `SCRATCH/progress`: the number of the file at hand and what the model said of it,
written before torch sees the file. The result goes to `SCRATCH/told.json`.
"""

from __future__ import annotations

import contextlib
import gc
import json
import re
import resource
import signal
import sys
import warnings
from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import torch
from bench.weights_only_mutations import mutate
from bench.weights_only_shapes import Base, assemble, make_bases

from everybit.api.scan import scan
from everybit.core.verdict import Status
from everybit.files.scans.refused import tell_loaded
from everybit.files.source import ByteSource
from everybit.files.weights_only.files import Loaded, load_as_torch

if TYPE_CHECKING:
    from collections.abc import Iterator

LOAD_SECONDS: Final = 20.0
_SPARE_BYTES: Final = 4 << 30
_CONTAINER_SHARE: Final = 0.08
_MAX_KEPT: Final = 20
_SCAN_EVERY: Final = 4
_DETAIL: Final = re.compile(r"storage \S+|member \S+|'[^']*'|0x[0-9a-f]+|\d+")


class SlowError(Exception):
    """Torch took longer than `LOAD_SECONDS`."""


def make_file(bases: list[Base], seed: int, number: int) -> tuple[Base, bytes]:
    """Return file `number` of a campaign: the same for the same seed, whatever ran before."""
    rng = Random(f"{seed}/{number}")
    base = rng.choices(bases, [base.weight for base in bases])[0]
    if rng.random() < _CONTAINER_SHARE:
        data = bytearray(assemble(base, base.pickle))
        for _ in range(rng.choice((1, 1, 2, 4))):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        return base, bytes(data)
    return base, assemble(base, mutate(base, bases, rng))


def ask_torch(path: Path) -> str:
    """Return "" where torch accepts a file, else the kind of its error."""
    try:
        with _at_most(LOAD_SECONDS):
            torch.load(path, weights_only=True, map_location="cpu")
    except SlowError:
        return "Slow"
    except MemoryError:
        return "MemoryError"
    except Exception as error:
        return type(error).__name__
    return ""


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise SlowError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def ask_model(path: Path) -> tuple[Loaded, bool]:
    """Return what the model says of a file, and whether a finding tells it."""
    with ByteSource(path) as source:
        loaded = load_as_torch(source)
    return loaded, tell_loaded(loaded, path.name) is not None


def is_clean(path: Path) -> bool:
    """Return whether `scan` finds nothing in a file and promised nothing that it did not do."""
    return scan(path).status == Status.CLEAN


def class_of(loaded: Loaded) -> str:
    """Return the kind of refusal, without what differs from file to file."""
    if not loaded.kind:
        return "not seen as a file of torch's"
    if loaded.acceptance.damaged:
        return f"damage: {_DETAIL.sub('...', loaded.acceptance.refusals[0].reason)}"
    first = loaded.acceptance.refusals[0]
    return _DETAIL.sub("...", first.reason)


class Comparison:
    """Counts of a stretch of files, and what must not be."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.refused_though_accepted: Counter[str] = Counter()
        self.examples: dict[str, int] = {}
        self.broken: list[dict[str, Any]] = []

    def add(
        self, number: int, base: Base, loaded: Loaded, found: bool, error: str, clean: bool
    ) -> None:
        """Count one file."""
        self.counts["clean for scan too"] += clean
        if clean and error:
            self._keep(number, base, f"clean for scan, torch raises {error}")
        said = loaded.acceptance.accepted
        self.counts[f"model {'accepts' if said else 'refuses'}"] += 1
        self.counts[f"torch {'refuses' if error else 'accepts'}"] += 1
        if said and error:
            self._keep(number, base, f"accepted by the model, torch raises {error}")
        if said == found:
            untold = loaded.acceptance.damaged or not loaded.kind
            if said or not untold:
                self._keep(number, base, "the finding contradicts the model")
        if not said and not error:
            why = class_of(loaded)
            self.refused_though_accepted[why] += 1
            self.examples.setdefault(why, number)

    def _keep(self, number: int, base: Base, what: str) -> None:
        if len(self.broken) < _MAX_KEPT:
            self.broken.append({"number": number, "base": base.name, "what": what})

    def to_json(self) -> dict[str, Any]:
        """Return it for the parent."""
        return {
            "counts": dict(self.counts),
            "refused_though_accepted": dict(self.refused_though_accepted),
            "examples": self.examples,
            "broken": self.broken,
        }


def compare(scratch: Path, seed: int, first: int, count: int) -> Comparison:
    """Compare model and torch over files `[first, first + count)`."""
    warnings.simplefilter("ignore")
    bases = make_bases()
    gc.freeze()
    place = scratch / "at-hand.pt"
    progress = scratch / "progress"
    result = Comparison()
    for number in range(first, first + count):
        base, data = make_file(bases, seed, number)
        place.write_bytes(data)
        loaded, found = ask_model(place)
        accepted = loaded.acceptance.accepted
        progress.write_text(f"{number} {int(accepted)}", encoding="utf-8")
        # Of what the model refuses without a finding of its own, scan has to tell.
        asked = not accepted and not found and not number % _SCAN_EVERY
        clean = asked and is_clean(place)
        result.counts["asked scan"] += asked
        result.add(number, base, loaded, found, ask_torch(place), clean)
    return result


def main(arguments: list[str]) -> None:
    """Run a stretch under a bound of memory."""
    scratch = Path(arguments[0])
    seed, first, count = map(int, arguments[1:4])
    torch.set_num_threads(1)
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
    limit = pages * resource.getpagesize() + _SPARE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    told = compare(scratch, seed, first, count).to_json()
    (scratch / "told.json").write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Read mutated inputs in bounded memory and CPU time: the child of `fuzz_campaign`.

python -m bench.fuzz_child CORPUS SCRATCH SEED FIRST COUNT
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.mutations import MUTATIONS

import everybit
from everybit.core.errors import EverybitError
from everybit.core.verdict import Status
from everybit.files import read_tensor_bytes, read_tensors
from everybit.files.checks.shard_index import is_index, shards_of
from everybit.files.model import read_model, read_model_tensor
from everybit.files.reading import read_structure
from everybit.files.repair import archives
from everybit.files.seals.manifest import MANIFEST_NAME, load_manifest
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from types import FrameType

#: Bounds of one input. It is a few KB, so that both are generous.
CPU_SECONDS: Final = 5.0
MEMORY_MIB: Final = 200
#: Address space beyond what the child has at its start; a backstop, since much of it is never used.
_ADDRESS_MIB: Final = 4096
#: In place of the ten seconds that repair searches an archive's records for.
_SEARCH_SECONDS: Final = 0.3
_WARM_UP: Final = 20
_MAX_TENSOR_BYTES: Final = 1 << 20


def _weight(entry: dict[str, str]) -> int:
    if entry["target"] == "folder":
        return 1
    return 2 if "zip" in entry["how"] else 5


class TooSlowError(BaseException):
    """An input took more CPU time than its bound."""


class Fuzzer:
    """Makes inputs and reads them.

    Args:
        corpus: Folder that `fuzz_corpus` wrote.
        scratch: A folder to work in.
        seed: All inputs follow from it.
        parsed_only: Share of them that meet their parser alone; the others all that is built on it.
    """

    def __init__(self, corpus: Path, scratch: Path, seed: int, parsed_only: float) -> None:
        self.seed = seed
        self.parsed_only = parsed_only
        self.entries = json.loads((corpus / "corpus.json").read_text(encoding="utf-8"))
        self.scratch = scratch
        self.work = scratch / "work"
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(corpus, self.work)
        self.clean = {
            (entry["folder"], entry["file"]): (
                corpus / entry["folder"] / entry["file"]
            ).read_bytes()
            for entry in self.entries
        }
        # A folder takes several times as long to read as a file, an archive longer than others.
        self.weights = [_weight(entry) for entry in self.entries]
        self.statuses: Counter[str] = Counter()
        self.names: Counter[str] = Counter()

    def _make(self, number: int) -> tuple[dict[str, str], bytes, random.Random]:
        rng = random.Random(f"{self.seed}:{number}")
        (entry,) = rng.choices(self.entries, self.weights)
        data = MUTATIONS[entry["how"]](self.clean[entry["folder"], entry["file"]], rng)
        if rng.random() < 0.15:
            data = MUTATIONS["bytes"](data, rng)
        return entry, data, rng

    def describe(self, number: int) -> str:
        """What an input is."""
        entry, data, _ = self._make(number)
        return f"{entry['name']}, {len(data)} bytes: {data[:40]!r}"

    def keep(self, number: int, path: Path) -> None:
        """Write an input's bytes to a file."""
        path.write_bytes(self._make(number)[1])

    def read(self, number: int) -> None:
        """Read one input by everything that reads it; raises what must not be raised."""
        entry, data, rng = self._make(number)
        self.names[entry["name"]] += 1
        clean = self.clean[entry["folder"], entry["file"]]
        folder = self.work / entry["folder"]
        path = folder / entry["file"]
        path.write_bytes(data)
        try:
            self._read(entry, folder, path, data != clean, rng)
        finally:
            path.write_bytes(clean)

    def _read(
        self, entry: dict[str, str], folder: Path, path: Path, changed: bool, rng: random.Random
    ) -> None:
        target = folder if entry["target"] == "folder" else path
        if rng.random() < self.parsed_only:
            self.statuses[_parse(path)] += 1
            return
        status = "error"
        with contextlib.suppress(EverybitError):
            verdict = everybit.verify(target)
            json.dumps([finding.to_json() for finding in verdict.findings])
            status = str(verdict.status)
            if entry["name"].startswith("sealed") and changed and verdict.status is Status.CLEAN:
                raise AssertionError("a sealed file was changed and its verdict is clean")
        self.statuses[status] += 1
        draw = rng.random()
        if draw < 0.2:
            _read_tensors(path)
        elif draw < 0.35:
            _read_model(target)
        elif draw < 0.4:
            _seal(path)
        elif draw < 0.5:
            self._extract(path)
        elif draw < 0.54:
            with contextlib.suppress(EverybitError):
                everybit.repair(target)

    def _extract(self, path: Path) -> None:
        out = self.scratch / "extracted"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        with contextlib.suppress(EverybitError):
            everybit.extract(path, out / "whole.safetensors")


def _parse(path: Path) -> str:
    """Let the parser of a file read it."""
    try:
        if path.name == MANIFEST_NAME:
            manifest = load_manifest(path.parent)
            assert manifest is not None
            for sealed in manifest.files.values():
                list(sealed.tensors)
            return "parsed"
        if is_index(path.name):
            shards_of(path)
            return "parsed"
        with ByteSource(path) as source:
            structure = read_structure(source)
        return "parsed, with damage" if structure.damages else "parsed"
    except EverybitError:
        return "error"


def _read_tensors(path: Path) -> None:
    with contextlib.suppress(EverybitError):
        for tensor in itertools.islice(read_tensors(path).tensors, 20):
            if not tensor.unreadable and tensor.num_bytes < _MAX_TENSOR_BYTES:
                read_tensor_bytes(path, tensor, 0, 4096)


def _read_model(target: Path) -> None:
    with contextlib.suppress(EverybitError):
        model = read_model(target, digests=True)
        for tensor in itertools.islice(model.tensors, 20):
            if not tensor.unreadable and tensor.num_bytes < _MAX_TENSOR_BYTES:
                read_model_tensor(model, tensor)


def _seal(path: Path) -> None:
    manifest = path.parent / MANIFEST_NAME
    held = manifest.read_bytes() if manifest.exists() else None
    if path == manifest:
        return
    with contextlib.suppress(EverybitError):
        everybit.seal(path)
    if held is not None:
        manifest.write_bytes(held)
    else:
        manifest.unlink(missing_ok=True)


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _too_slow(_signal: int, _frame: FrameType | None) -> None:
    raise TooSlowError


def read_all(fuzzer: Fuzzer, first: int, count: int, progress: int) -> dict[str, Any]:
    """Read inputs `[first, first + count)`; ends early after one that took too much memory."""
    failures: list[dict[str, Any]] = []
    base = peak = _peak_mib()
    slowest = 0.0
    at = first
    for at in range(first, first + count):
        os.pwrite(progress, f"{at:<20}".encode(), 0)
        began = time.process_time()
        what = ""
        try:
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
            fuzzer.read(at)
        except TooSlowError:
            what = f"more than {CPU_SECONDS} s of CPU time: {_last_line()}"
        except BaseException as error:
            what = f"{type(error).__name__}: {str(error)[:300]}: {_last_line()}"
            if isinstance(error, KeyboardInterrupt):
                raise
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        slowest = max(slowest, time.process_time() - began)
        peak = _peak_mib()
        if at - first < _WARM_UP:
            # The first reading of each kind imports what it needs.
            base = max(base, min(peak, base + 64))
        if not what and peak - base > MEMORY_MIB:
            what = f"{peak - base:.0f} MiB"
        if what:
            failures.append({"input": at, "entry": fuzzer.describe(at), "what": what})
        if peak - base > MEMORY_MIB:
            break
    return {
        "next": at + 1,
        "failures": failures,
        "entries": dict(fuzzer.names),
        "statuses": dict(fuzzer.statuses),
        "peak_growth_mib": round(peak - base, 1),
        "slowest_cpu_s": round(slowest, 3),
        "cpu_seconds": round(time.process_time(), 1),
    }


def _last_line() -> str:
    _, error, trace = sys.exc_info()
    frames = [frame for frame in traceback.extract_tb(trace) if "everybit" in frame.filename]
    where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{where} ({type(error).__name__})"


def main() -> None:
    """Read the inputs that the command line names, and tell."""
    corpus, scratch = Path(sys.argv[1]), Path(sys.argv[2])
    seed, first, count = (int(text) for text in sys.argv[3:6])
    signal.signal(signal.SIGPROF, _too_slow)
    # Repair tries flips of an archive's records by the clock, up to its bound.
    archives._MAX_SECONDS = _SEARCH_SECONDS  # type: ignore[misc]
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * 4096
    limit = used + (_ADDRESS_MIB << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    progress = os.open(scratch / "progress", os.O_WRONLY)
    told = read_all(Fuzzer(corpus, scratch, seed, float(sys.argv[6])), first, count, progress)
    (scratch / "told.json").write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main()

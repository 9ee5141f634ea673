"""What `verify` and `seal` cost beside a bare read of the same warm bytes.

    python bench/verify.py [--rounds 15] [--write]

Interleaved: every round reads the file bare in 1 MiB pieces and then runs each verb on it, in one
process, so that start-up stands apart. Ratios are medians over the rounds' own pairs. Peak memory
is taken in a fresh process for a small and a large file.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from bench.table import write_section

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 1 << 20


def read_bare(path: Path) -> None:
    with path.open("rb") as file:
        while file.read(MIB):
            pass


def make_checkpoint(path: Path, mib: int) -> Path:
    """A checkpoint of about `mib` MiB: weights and two moments of layers of 4 MiB."""
    layers = {
        f"layer.{index}.{kind}": torch.randn(1024, 1024)
        for index in range(max(1, mib // 12))
        for kind in ("weight", "exp_avg", "exp_avg_sq")
    }
    torch.save(layers, path)
    return path


def seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def measure(path: Path, rounds: int) -> dict[str, list[float]]:
    import everybit

    everybit.seal(path)
    manifest = path.parent / "MANIFEST.everybit.json"
    sealed = manifest.read_bytes()

    def unsealed() -> None:
        manifest.unlink()
        assert everybit.verify(path).ok
        manifest.write_bytes(sealed)

    def check(**options: object) -> None:
        assert everybit.verify(path, **options).ok  # type: ignore[arg-type]

    calls: dict[str, Callable[[], object]] = {
        "bare read": lambda: read_bare(path),
        "verify (sealed)": check,
        "verify --strong": lambda: check(strong=True),
        "verify (no manifest: CRCs)": unsealed,
        "seal": lambda: everybit.seal(path),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds + 1):
        for name, call in calls.items():
            times[name].append(seconds(call))
    return {name: values[1:] for name, values in times.items()}


def peak_mib(path: Path) -> float:
    """Peak resident memory of one `verify`, in a process of its own."""
    script = (
        "import everybit\n"
        f"assert everybit.verify({str(path)!r}).ok\n"
        "for line in open('/proc/self/status'):\n"
        "    if line.startswith('VmHWM'): print(int(line.split()[1]) / 1024)"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--write", action="store_true", help="write the section of the docs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        path = make_checkpoint(folder / "model.pt", 256)
        times = measure(path, options.rounds)
        size = path.stat().st_size
        rows = ["| | ms | GB/s | times the bare read |", "|---|---|---|---|"]
        for name, values in times.items():
            middle = statistics.median(values)
            pairs = zip(values, times["bare read"], strict=True)
            ratio = statistics.median(value / bare for value, bare in pairs)
            rows.append(
                f"| {name} | {1e3 * middle:.0f} | {size / middle / 1e9:.1f} | {ratio:.2f} |"
            )
        import everybit

        memory = []
        for mib in (16, 256):
            inner = folder / str(mib)
            inner.mkdir()
            sealed = make_checkpoint(inner / "model.pt", mib)
            everybit.seal(sealed)
            memory.append(f"{peak_mib(sealed):.0f} MiB for a file of {mib} MiB")
    text = (
        f"## verify and seal\n\n`python bench/verify.py`: {size >> 20} MiB of `torch.save`, warm, "
        f"{os.cpu_count()} cores, torch {torch.__version__}, "
        f"{options.rounds} interleaved rounds.\n\n"
        + "\n".join(rows)
        + f"\n\nPeak memory of a process that runs `verify`: {', '.join(memory)}.\n"
    )
    print(text)
    if options.write:
        write_section("verify", text)


if __name__ == "__main__":
    main()

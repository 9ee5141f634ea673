"""What looking after files costs, beside reading them, loading them, and other tools.

    python -m bench.files --place /dev/shm --out bench/results/files-speed.json --write

Each subject is a process of its own that stays; rounds are interleaved: every subject runs once a
round, in turn, on the same bytes in the page cache. Ratios are medians over the rounds' own pairs.
Peak anonymous memory is sampled in one more run, which is not timed. Peers are installed into a
folder of their own (`--peers`): model-signing from PyPI into a virtual environment, Debian's b3sum
and par2 unpacked. What cannot be had is left out of the table, and said.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.files_worker import BARE, OURS, PEERS
from bench.kept import commit
from bench.table import write_section

if TYPE_CHECKING:
    from collections.abc import Iterable

_LAYER_MIB: Final = 64
_PAR2: Final = "par2 create -r5"
#: It takes minutes a GiB.
_PAR2_MIB: Final = 1024
_PARITY: Final = "everybit: parity alone, 5 %"


def make_files(folder: Path, mib: int) -> None:
    """One model as safetensors and by `torch.save`; the folders of the subjects link to it."""
    import torch
    from safetensors.torch import save_file

    for name in ("plain", "sealed", "seal", "signing", "parity", "par2", "torch"):
        (folder / name).mkdir(parents=True)
    rng = torch.Generator().manual_seed(mib)
    layer = min(_LAYER_MIB, mib)
    state = {
        f"layer.{number}.weight": torch.randn(layer << 18, generator=rng).reshape(-1, 1024)
        for number in range(mib // layer)
    }
    save_file(state, folder / "plain" / "model.safetensors", metadata={"format": "pt"})
    torch.save(state, folder / "torch" / "model.pt")
    for name in ("sealed", "seal", "signing", "parity", "par2"):
        os.link(folder / "plain" / "model.safetensors", folder / name / "model.safetensors")


def install_peers(folder: Path) -> dict[str, str]:
    """Install the peers into `folder`; returns why one is not there, by its name."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = {}
    python = folder / "venv" / "bin" / "python"
    steps: dict[str, list[list[str]]] = {
        "model-signing": [
            [sys.executable, "-m", "venv", str(folder / "venv")],
            [str(python), "-m", "pip", "install", "-q", "model-signing==1.1.1", "pyopenssl"],
        ],
        "b3sum": [["apt-get", "download", "-qq", "b3sum"]],
        "par2": [["apt-get", "download", "-qq", "par2"]],
    }
    for name, commands in steps.items():
        try:
            if name != "model-signing":
                if not (folder / "usr" / "bin" / name).exists():
                    subprocess.run(commands[0], check=True, cwd=folder, capture_output=True)
                    for package in folder.glob(f"{name}_*.deb"):
                        subprocess.run(["dpkg-deb", "-x", str(package), str(folder)], check=True)
            elif (
                not python.exists()
                or subprocess.run([python, "-c", "import model_signing.signing"]).returncode
            ):
                for command in commands:
                    subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            missing[name] = str(error)[:200]
    return missing


class Worker:
    """One subject in a process of its own."""

    def __init__(self, name: str, folder: Path, peers: Path) -> None:
        own = peers / "venv" / "bin" / "python"
        python = str(own) if name == "model-signing: sign" else sys.executable
        script = str(Path(__file__).with_name("files_worker.py"))
        self.name = name
        self.process = subprocess.Popen(
            [python, "-P", script, name, str(folder), str(peers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, what: str) -> dict[str, float]:
        """Run once: `time`, or `memory` for the peak of its anonymous memory."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name}: the worker ended with {self.process.wait()}")
        told: dict[str, float] = json.loads(line)
        return told

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


def measure(mib: int, rounds: int, place: Path | None, peers: Path, only: Iterable[str]) -> Any:
    """Time all subjects at one size."""
    with tempfile.TemporaryDirectory(dir=place) as top:
        folder = Path(top)
        make_files(folder, mib)
        import everybit

        everybit.seal(folder / "sealed")
        everybit.seal(folder / "parity")
        names = [name for name in (*BARE, *OURS, *PEERS) if not only or name in (*BARE, *only)]
        if mib > _PAR2_MIB:
            names = [name for name in names if name != _PAR2]
        workers, failed = [], {}
        for name in names:
            worker = Worker(name, folder, peers)
            try:
                worker.ask("time")  # imports, page cache, thread pools
                workers.append(worker)
            except (RuntimeError, BrokenPipeError) as error:
                failed[name] = str(error)
        times: dict[str, list[float]] = {worker.name: [] for worker in workers}
        slow = {worker.name for worker in workers if worker.name == _PAR2}
        for number in range(rounds):
            for worker in workers:
                # One round of what takes minutes.
                if worker.name in slow and number:
                    continue
                times[worker.name].append(worker.ask("time")["seconds"])
                print(mib, worker.name, f"{times[worker.name][-1]:.3f}", file=sys.stderr)
        memory = {
            worker.name: round(worker.ask("memory")["anonymous_mib"], 1)
            for worker in workers
            if worker.name in OURS
        }
        for worker in workers:
            worker.close()
        size = (folder / "plain" / "model.safetensors").stat().st_size
    return {"mib": mib, "bytes": size, "times": times, "memory_mib": memory, "failed": failed}


def ratio(times: dict[str, list[float]], name: str, other: str) -> float:
    """Median over rounds of one time over another."""
    if name not in times or other not in times:
        return float("nan")
    return statistics.median(a / b for a, b in zip(times[name], times[other], strict=False))


def claims(part: dict[str, Any]) -> list[tuple[str, float, str, bool]]:
    """What must hold at one size: `(what, measured, bound, holds)`."""
    times = part["times"]
    read = BARE[0]
    rows = [
        ("verify with manifest / read", ratio(times, "everybit: verify, sealed", read), 1.75),
        ("--strong / b3sum", ratio(times, "everybit: verify --strong", "b3sum"), 1.25),
        (
            "structure and CRC / read",
            ratio(times, "everybit: structure and CRCs alone", read),
            1.75,
        ),
        ("peak anonymous MiB", max(part["memory_mib"].values(), default=0.0), 200.0),
    ]
    found = [(what, value, f"<= {bound}", value <= bound) for what, value, bound in rows]
    faster = ratio(times, "model-signing: sign", "everybit: seal")
    found.append(("model-signing / seal", faster, ">= 2", faster >= 2))
    faster = ratio(times, _PAR2, _PARITY)
    found.append(("par2 / parity", faster, ">= 50", faster >= 50))
    return [row for row in found if row[1] == row[1]]


def table(result: dict[str, Any]) -> str:
    """All sizes as tables."""
    text = ""
    for part in result["sizes"]:
        text += f"### {part['mib']} MiB\n\n| | s | GB/s | times the read | anonymous MiB |\n"
        text += "|---|---|---|---|---|\n"
        for name, values in part["times"].items():
            middle = statistics.median(values)
            memory = part["memory_mib"].get(name)
            text += (
                f"| {name} | {middle:.3f} | {part['bytes'] / middle / 1e9:.2f} | "
                f"{ratio(part['times'], name, BARE[0]):.2f} | "
                f"{'' if memory is None else f'{memory:.0f}'} |\n"
            )
        text += "\n| bound | measured | |\n|---|---|---|\n"
        for what, value, bound, holds in claims(part):
            text += f"| {what} {bound} | {value:.2f} | {'holds' if holds else 'missed'} |\n"
        for name, why in part["failed"].items():
            text += f"\n`{name}` could not be run: {why}.\n"
        text += "\n"
    return text


def main() -> None:
    """Measure from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=int, action="append")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--place", type=Path, help="where the files lie; best in memory")
    parser.add_argument("--peers", type=Path, help="where peers are installed; kept")
    parser.add_argument("--only", action="append", default=[], help="subjects beside the read")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--write", action="store_true", help="write the section of the docs")
    options = parser.parse_args()
    own = options.peers is None
    peers = Path(tempfile.mkdtemp()) if own else options.peers
    began = time.perf_counter()
    result: dict[str, Any] = {
        "commit": commit(),
        "rounds": options.rounds,
        "cores": os.cpu_count(),
        "peers_missing": install_peers(peers),
        "sizes": [],
    }
    for mib in options.mib or (1024, 4096):
        result["sizes"].append(measure(mib, options.rounds, options.place, peers, options.only))
        result["seconds"] = round(time.perf_counter() - began, 1)
        if options.out is not None:
            options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if own:
        shutil.rmtree(peers)
    import torch

    text = (
        f"## Files at rest\n\n`python -m bench.files`, commit {result['commit']}, {os.cpu_count()} "
        f"cores, torch {torch.__version__}, files in the page cache, medians over "
        f"{options.rounds} interleaved rounds.\n\n" + table(result)
    )
    print(text)
    if options.write:
        write_section("files-speed", text)


if __name__ == "__main__":
    main()

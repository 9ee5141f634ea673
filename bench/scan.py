"""Scanners side by side: what each says of the corpus, and how long it takes.

    python -m bench.scan --peers PEERS --out bench/results/scan.json [--kept RESULT]

PEERS is a folder with a virtual environment for each peer, under its name: picklescan, modelscan,
fickling, modelaudit. One that is not there is left out. Every adversarial file whose loader is
here is also loaded by it, in a fork of its own (`scan_corpus.canary`): its payload prints. What a
slower peer of the same version said of the same bytes may be kept from an earlier result.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.kept import commit
from bench.scan_corpus import Sample, corpus, write_corpus
from bench.table import write_section

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT: Final = Path(__file__).resolve().parent.parent
PEERS: Final = ("picklescan", "modelscan", "fickling", "modelaudit")
_LARGE_BYTES: Final = 1 << 30
#: Runs of a command whose median counts.
_RUNS: Final = 15
#: What the result file keeps of an answer.
_KEPT: Final = ("unsafe", "flagged", "seconds", "error", "at")
#: Peers that are always asked again, since they are timed beside everybit.
_TIMED: Final = ("everybit", "picklescan")


def write_files(folder: Path, samples: Iterable[Sample]) -> list[dict[str, str]]:
    """Write the corpus; returns a job for each file."""
    listed = list(samples)
    write_corpus(folder, listed)
    return [{"name": sample.name, "path": str(folder / sample.name)} for sample in listed]


def ask(python: Path, tool: str, jobs: list[dict[str, str]], rounds: int = 1) -> dict[str, Any]:
    """Ask a tool about these files; goes on behind a file that ends its process.

    Returns:
        By name: `unsafe`, `flagged`, `seconds`, and `error` where it could not run.
    """
    told: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        listed, out = Path(place) / "jobs.json", Path(place) / "out.jsonl"
        while left := [job for job in jobs if job["name"] not in told]:
            listed.write_text(json.dumps(left), encoding="utf-8")
            out.unlink(missing_ok=True)
            command = [str(python), str(ROOT / "bench" / "scan_peers.py"), tool]
            done = subprocess.run(
                [*command, str(listed), str(out), str(rounds)], capture_output=True, text=True,
                cwd=place, check=False,
            )  # fmt: skip
            lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
            told |= {answer["name"]: answer for answer in map(json.loads, lines)}
            if done.returncode == 0:
                break
            if not lines and not told:
                raise RuntimeError(f"{tool} does not start: {done.stderr[-500:]}")
            ended = next(job["name"] for job in jobs if job["name"] not in told)
            told[ended] = {
                "name": ended, "unsafe": False, "flagged": False, "seconds": 0.0,
                "error": f"ended the process ({done.returncode})",
            }  # fmt: skip
    return told


def prove(jobs: list[dict[str, str]], samples: Iterable[Sample]) -> dict[str, str]:
    """Load every hostile file whose loader is here; returns `yes`, `no` or `unable` by name."""
    places = {job["name"]: job["path"] for job in jobs}
    tried = [
        {"name": sample.name, "path": places[sample.name], "loader": sample.loader,
         "proof": sample.proof, "needs": sample.needs}
        for sample in samples if sample.loader
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        listed, out = Path(place) / "jobs.json", Path(place) / "out.json"
        listed.write_text(json.dumps(tried), encoding="utf-8")
        command = [sys.executable, "-m", "bench.scan_corpus.canary", str(listed), str(out)]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        told = json.loads(out.read_text(encoding="utf-8"))
    return {name: answer["ran"] for name, answer in told.items()}


def version(python: Path, tool: str) -> str:
    """The version of a tool, as its package tells it."""
    code = f"import importlib.metadata as m; print(m.version({tool!r}))"
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def digest(path: Path) -> str:
    """A digest of a file, or of the files of a folder."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    whole = hashlib.sha256()
    for file in files:
        whole.update(str(file.relative_to(path.parent)).encode())
        whole.update(file.read_bytes())
    return whole.hexdigest()[:16]


def known(kept: dict[str, Any], result: dict[str, Any], tool: str) -> dict[str, Any]:
    """What an earlier result holds of a tool of this version, of files with the same bytes."""
    same = kept.get("versions", {}).get(tool) == result["versions"][tool]
    if tool in _TIMED or not same:
        return {}
    before, now = kept.get("digests", {}), result["digests"]
    told = kept["tools"].get(tool, {})
    return {name: told[name] for name in told if name in now and before.get(name) == now[name]}


def campaign(
    peers: Path | None, place: Path, *, slow: bool = True, kept: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Write the corpus, load what can be loaded, and ask every tool about every file.

    Answers of slower peers are taken from `kept`, an earlier result, for files of the same bytes.
    """
    samples = corpus(slow=slow)
    jobs = write_files(place, samples)
    pythons = {"everybit": Path(sys.executable)}
    for peer in PEERS if peers else ():
        python = peers / peer / "bin" / "python"
        if python.exists():
            pythons[peer] = python
    result: dict[str, Any] = {
        "commit": commit(),
        "versions": {tool: version(python, tool) for tool, python in pythons.items()},
        "files": {
            sample.name: {"kind": sample.kind, "source": sample.source, "hostile": sample.hostile}
            for sample in samples
        },
        "digests": {job["name"]: digest(Path(job["path"])) for job in jobs},
        "ran": prove(jobs, samples),
        "tools": {},
    }
    for tool, python in pythons.items():
        told = {
            name: {"at": (kept or {})["commit"], **answer}
            for name, answer in known(kept or {}, result, tool).items()
        }
        left = [job for job in jobs if job["name"] not in told]
        answers = told | (ask(python, tool, left) if left else {})
        result["tools"][tool] = {
            job["name"]: {key: answers[job["name"]][key] for key in _KEPT
                          if key in answers[job["name"]]}
            for job in jobs
        }  # fmt: skip
    if "picklescan" in pythons:
        result["speed"] = speed(pythons["picklescan"], jobs)
    return result


def speed(picklescan: Path, jobs: list[dict[str, str]], rounds: int = 5) -> dict[str, Any]:
    """Time both on the same files, in turn: the file's own CPU time, without starting up."""
    files = [job for job in jobs if Path(job["path"]).is_file()]
    taken: dict[str, list[dict[str, float]]] = {"everybit": [], "picklescan": []}
    for _ in range(rounds):
        for tool, python in (("everybit", Path(sys.executable)), ("picklescan", picklescan)):
            told = ask(python, tool, files)
            taken[tool].append({name: answer.get("cpu_s", 0.0) for name, answer in told.items()})
    best = {
        tool: {job["name"]: min(one.get(job["name"], 0.0) for one in told) for job in files}
        for tool, told in taken.items()
    }
    faster = [job["name"] for job in files
              if best["everybit"][job["name"]] <= best["picklescan"][job["name"]]]  # fmt: skip
    slower = sorted(
        (job["name"] for job in files if job["name"] not in faster),
        key=lambda name: best["picklescan"][name] - best["everybit"][name],
    )
    ratios = [best["everybit"][job["name"]] / max(best["picklescan"][job["name"]], 1e-9)
              for job in files]  # fmt: skip
    return {
        "commit": commit(), "median_ratio": statistics.median(ratios),
        "files": len(files), "rounds": rounds, "faster": len(faster), "slowest": slower[:8],
        "total_s": {tool: sum(times.values()) for tool, times in best.items()},
        "median_s": {tool: statistics.median(times.values()) for tool, times in best.items()},
    }  # fmt: skip


def large(picklescan: Path | None, place: Path, rounds: int = 3) -> dict[str, Any]:
    """Scan a checkpoint of 1 GiB, in a process of its own each time: seconds and peak memory."""
    import torch

    path = place / "large.pt"
    count = _LARGE_BYTES // 4 // 64
    torch.save({f"layers.{index}.weight": torch.full((count,), 1.5) for index in range(64)}, path)
    jobs = [{"name": "large", "path": str(path)}]
    small = [{"name": "small", "path": str(place / "small.pt")}]
    torch.save({"w": torch.ones(2)}, place / "small.pt")
    result: dict[str, Any] = {"bytes": path.stat().st_size}
    tools = {"everybit": Path(sys.executable)} | ({"picklescan": picklescan} if picklescan else {})
    for tool, python in tools.items():
        told = [ask(python, tool, jobs, 2)["large"] for _ in range(rounds)]
        base = ask(python, tool, small)["small"]["peak_kib"]
        peak = max(answer["peak_kib"] for answer in told)
        result[tool] = {
            "seconds": [answer["seconds"] for answer in told],
            "first_s": [answer["first_s"] for answer in told], "peak_mib": peak / 1024,
            "more_than_small_mib": (peak - base) / 1024,
        }  # fmt: skip
    path.unlink()
    commands = {"everybit": [sys.executable, "-m", "everybit", "scan", str(place / "small.pt")]}
    if picklescan:
        command = str(picklescan.parent / "picklescan")
        commands["picklescan"] = [command, "-p", str(place / "small.pt")]
    for name, seconds in _time_commands(commands, place).items():
        result[name]["command_s"] = seconds
    return result


def typical(picklescan: Path | None, place: Path) -> dict[str, Any]:
    """Scan a training state of 1,152 tensors and its legacy form, in turn: seconds of the best."""
    import torch

    layers = torch.nn.ModuleList(torch.nn.TransformerEncoderLayer(16, 2, 32) for _ in range(24))
    optimizer = torch.optim.AdamW(layers.parameters())
    sum(parameter.sum() for parameter in layers.parameters()).backward()
    optimizer.step()
    value = {"model": layers.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(value, place / "training.pt")
    torch.save(value, place / "training-legacy.pt", _use_new_zipfile_serialization=False)
    jobs = [{"name": name, "path": str(place / f"{name}.pt")}
            for name in ("training", "training-legacy")]  # fmt: skip
    best: dict[str, dict[str, float]] = {}
    tools = {"everybit": Path(sys.executable)} | ({"picklescan": picklescan} if picklescan else {})
    for _ in range(3):
        for tool, python in tools.items():
            for name, answer in ask(python, tool, jobs, 5).items():
                known = best.setdefault(tool, {})
                known[name] = min(known.get(name, 1e9), answer["seconds"])
    return best


def _time_commands(commands: dict[str, list[str]], place: Path) -> dict[str, float]:
    """Time commands in turn, as `pip` installs them: compiled, and away from their source.

    A first run of each writes its compiled files below `place`.
    """
    environ = {name: value for name, value in os.environ.items()
               if name != "PYTHONDONTWRITEBYTECODE"}  # fmt: skip
    environ["PYTHONPYCACHEPREFIX"] = str(place / "compiled")
    took: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(_RUNS + 1):
        for name, command in commands.items():
            began = time.perf_counter()
            subprocess.run(command, capture_output=True, check=False, cwd=place, env=environ)
            took[name].append(time.perf_counter() - began)
    return {name: statistics.median(times[1:]) for name, times in took.items()}


def failures(result: dict[str, Any]) -> list[str]:
    """What must not be: an adversarial file that is not flagged, or an error on a benign one."""
    told = result["tools"]["everybit"]
    wrong = []
    for name, file in result["files"].items():
        answer = told[name]
        if file["hostile"] and not answer["flagged"]:
            wrong.append(f"{name} is not flagged")
        if not file["hostile"] and answer["unsafe"]:
            wrong.append(f"{name} is called unsafe")
        if "error" in answer:
            wrong.append(f"{name}: {answer['error']}")
    return wrong


def main() -> int:
    """Run the campaign from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results" / "scan.json")
    parser.add_argument("--kept", type=Path, help="an earlier result file")
    parser.add_argument("--speed", action="store_true", help="time the files anew, keep the rest")
    parser.add_argument("--place", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--no-page", action="store_true")
    options = parser.parse_args()
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory(dir=options.place) as place:
        files, more = Path(place) / "files", Path(place) / "large"
        files.mkdir()
        more.mkdir()
        if options.speed:
            result = json.loads(options.out.read_text(encoding="utf-8"))
            jobs = write_files(files, corpus(slow=True))
            result["speed"] = speed(options.peers / "picklescan" / "bin" / "python", jobs)
            return _told(result, options)
        kept = json.loads(options.kept.read_text(encoding="utf-8")) if options.kept else None
        result = campaign(options.peers, files, kept=kept)
        picklescan = options.peers / "picklescan" / "bin" / "python" if options.peers else None
        result["typical"] = typical(picklescan, more)
        result["large"] = large(picklescan, more)
    return _told(result, options)


def _told(result: dict[str, Any], options: argparse.Namespace) -> int:
    """Keep and show a result; returns 1 where something must not be."""
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=0) + "\n", encoding="utf-8")
    from bench.scan_table import table

    page = table(result)
    print(page)
    if not options.no_page:
        write_section("scan", page)
    wrong = failures(result)
    for line in wrong:
        print(f"wrong: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""Scan files with one tool, in the environment where that tool is: a child of `scan.py`.

    PYTHON bench/scan_peers.py TOOL JOBS OUT [ROUNDS]

Imports nothing of everybit unless it is the tool. Each tool is asked as its own command line asks
it, through its Python interface, so that a file costs no start-up. A line is written for each
file when it is done: the parent goes on behind a file that ends the process.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_LIMIT_S: Final = 120


def _files(path: str) -> list[str]:
    """The files of a folder, for tools that take files only."""
    place = Path(path)
    if place.is_file():
        return [path]
    return [str(file) for file in sorted(place.rglob("*")) if file.is_file()]


def _everybit() -> Callable[[str], tuple[bool, bool]]:
    from everybit.api.scan import scan

    def ask(path: str) -> tuple[bool, bool]:
        verdict = scan(path)
        levels = {str(finding.severity) for finding in verdict.findings}
        return "error" in levels, bool(levels & {"warning", "error"})

    return ask


def _picklescan() -> Callable[[str], tuple[bool, bool]]:
    from picklescan.scanner import SafetyLevel, scan_directory_path, scan_file_path

    def ask(path: str) -> tuple[bool, bool]:
        look = scan_directory_path if Path(path).is_dir() else scan_file_path
        result = look(path)
        unsafe = result.issues_count > 0
        doubted = any(found.safety != SafetyLevel.Innocuous for found in result.globals)
        return unsafe, unsafe or doubted or result.scan_err

    return ask


def _modelscan() -> Callable[[str], tuple[bool, bool]]:
    from modelscan.modelscan import ModelScan

    def ask(path: str) -> tuple[bool, bool]:
        found = ModelScan().scan(path)
        unsafe = bool(found["issues"])
        return unsafe, unsafe or bool(found["errors"])

    return ask


def _fickling() -> Callable[[str], tuple[bool, bool]]:
    from fickling import scan_file, scan_zip_archive

    unsafe_names = {"LIKELY_UNSAFE", "LIKELY_OVERTLY_MALICIOUS", "OVERTLY_MALICIOUS"}

    def ask(path: str) -> tuple[bool, bool]:
        unsafe = flagged = False
        for file in _files(path):
            results = [scan_file(file, graceful=True)]
            if zipfile.is_zipfile(file):  # its own pickle front is looked at as well
                members = list(scan_zip_archive(file, graceful=True).values())
                front = Path(file).read_bytes()[:2] != b"PK"
                results = [*members, *(results if front else [])]
            for result in results:
                unsafe = unsafe or result.severity.name in unsafe_names
                flagged = flagged or not result
        return unsafe, flagged

    return ask


def _modelaudit() -> Callable[[str], tuple[bool, bool]]:
    from modelaudit.core import determine_exit_code, scan_model_directory_or_file

    def ask(path: str) -> tuple[bool, bool]:
        result = scan_model_directory_or_file(path, timeout=_LIMIT_S, cache_enabled=False)
        levels = {getattr(item.severity, "value", str(item.severity)) for item in result.issues}
        unsafe = any(level.lower() == "critical" for level in levels)
        return unsafe, unsafe or determine_exit_code(result) != 0

    return ask


TOOLS: Final = {
    "everybit": _everybit,
    "picklescan": _picklescan,
    "modelscan": _modelscan,
    "fickling": _fickling,
    "modelaudit": _modelaudit,
}


def _peak_kib() -> int:
    """The most memory that this process has held; `ru_maxrss` counts its parent's as well."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0


def _expire(_signal: int, _frame: FrameType | None) -> None:
    raise TimeoutError(f"took more than {_LIMIT_S} s")


def main() -> None:
    """Ask one tool about every file, and write down what it said and how long it took."""
    tool, jobs, out = sys.argv[1], json.loads(Path(sys.argv[2]).read_text()), sys.argv[3]
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    os.environ["PROMPTFOO_DISABLE_TELEMETRY"] = "1"
    os.environ["NO_ANALYTICS"] = "1"
    logging.disable(logging.CRITICAL)
    ask = TOOLS[tool]()
    signal.signal(signal.SIGALRM, _expire)
    with Path(out).open("a", encoding="utf-8") as told:
        for job in jobs:
            answer: dict[str, Any] = {"name": job["name"], "unsafe": False, "flagged": False}
            took, worked = [], []
            for _ in range(rounds):
                signal.alarm(_LIMIT_S)
                began, before = time.perf_counter(), time.process_time()
                try:
                    answer["unsafe"], answer["flagged"] = ask(job["path"])
                except Exception as error:
                    answer["error"] = f"{type(error).__name__}: {error}"[:200]
                worked.append(time.process_time() - before)
                took.append(time.perf_counter() - began)
                signal.alarm(0)
            answer["seconds"] = min(took)
            answer["first_s"] = took[0]
            answer["cpu_s"] = min(worked)
            answer["peak_kib"] = _peak_kib()
            told.write(json.dumps(answer) + "\n")
            told.flush()


if __name__ == "__main__":
    main()

"""Scan files in a process of its own, and hear what it does: nothing that they name may happen.

    python -m bench.scan_corpus.watching JOBS OUT

An audit hook hears every import, compilation, process, socket and file opened for writing. A
program has to import its own modules; all else is told, with the file that was scanned.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import ModuleType

#: Events that a scan never needs, whatever their arguments.
_NEVER: Final = frozenset(
    {
        "builtins.breakpoint",
        "builtins.input",
        "compile",
        "ctypes.dlopen",
        "os.exec",
        "os.fork",
        "os.posix_spawn",
        "os.remove",
        "os.rename",
        "os.mkdir",
        "os.putenv",
        "os.spawn",
        "os.startfile",
        "os.system",
        "pickle.find_class",
        "pty.spawn",
        "shutil.rmtree",
        "signal.pthread_kill",
        "socket.connect",
        "socket.bind",
        "sqlite3.connect",
        "subprocess.Popen",
        "urllib.Request",
        "webbrowser.open",
    }
)
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Watch:
    """What is heard while a file is scanned."""

    def __init__(self) -> None:
        import everybit

        self.heard: list[str] = []
        self.on = False
        self._homes = (
            str(Path(everybit.__file__).parent),
            *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        )

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take an event, as `sys.addaudithook` gives it."""
        if self.on and self._told(event, arguments):
            self.heard.append(f"{event} {arguments[:1]!r}"[:200])

    def _told(self, event: str, arguments: tuple[Any, ...]) -> bool:
        if event == "exec":
            file = getattr(arguments[0], "co_filename", "<text>")
            return not file.startswith(("<frozen importlib", *self._homes))
        if event == "open":
            path, mode, flags = arguments
            written = isinstance(mode, str) and bool(set(mode) & set("wax+"))
            return (written or bool(int(flags or 0) & _WRITES)) and "__pycache__" not in str(path)
        if event == "compile":
            # A module whose byte code is not kept yet; `ast.literal_eval` makes no code at all,
            # and what it were to make would be heard when it is executed.
            return not str(arguments[1]).startswith(("<unknown>", *self._homes))
        return event in _NEVER


def _import_all(package: ModuleType) -> None:
    """Import what a scan may import later: dataclasses write and execute code of their own."""
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(found.name)


def scan_all(jobs: list[dict[str, str]]) -> dict[str, Any]:
    """Scan every file; returns its findings and what was heard, and the modules imported."""
    import everybit.files
    from everybit.api.scan import scan

    _import_all(everybit.files)
    watch = Watch()
    sys.addaudithook(watch.hear)
    before = set(sys.modules)
    told: dict[str, Any] = {}
    for job in jobs:
        watch.heard = []
        watch.on = True
        verdict = scan(job["path"])
        watch.on = False
        told[job["name"]] = {
            "findings": [
                [finding.rule, str(finding.severity), finding.message]
                for finding in verdict.findings
            ],
            "heard": watch.heard,
        }
    return {"files": told, "imported": sorted(set(sys.modules) - before)}


def main() -> None:
    """Scan the files of a list, and write down what was found and heard."""
    jobs = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    out = Path(sys.argv[2])
    result = scan_all(jobs)
    out.write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()

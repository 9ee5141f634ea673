"""One run of a matrix: a folder of its own, a copy of the program to run in, and how it ended."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from everybit.core.atomic import write_atomically
from everybit.core.errors import PathError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Folders that a copy leaves out.
_LEFT_OUT: Final = frozenset(
    {
        ".git", ".hg", ".ipynb_checkpoints", ".mypy_cache", ".pytest_cache", ".ruff_cache",
        "__pycache__", "everybit-matrix", "everybit-runs", "node_modules",
    }
)  # fmt: skip
MAX_COPY_BYTES: Final = 1024**3
#: Names the folder of a matrix.
MARK: Final = "matrix.json"
_RESULT: Final = "result.json"
#: A run that was told to end is given so long.
_GRACE_S: Final = 10.0
_THREADS: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What is run.

    Attributes:
        torch: Version.
        threads: Number of threads, None where it is not set.
        repeat: Which time, from 1.
        guarded: Whether under `everybit run`; older versions run as they are.
    """

    torch: str
    threads: int | None
    repeat: int
    guarded: bool

    @property
    def name(self) -> str:
        """Its folder."""
        threads = "" if self.threads is None else f"_threads-{self.threads}"
        return f"torch-{self.torch}{threads}_run-{self.repeat}"

    @property
    def setting(self) -> tuple[str, int | None]:
        """What it has in common with its repeats."""
        return self.torch, self.threads


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How it ended.

    Attributes:
        key: Of the program and its arguments: another key, another run.
        exit_code: The program's.
        seconds: How long it took.
        written: Files that it wrote, by path relative to where it ran; kept under `written`.
        detail: The last line of its stderr where it failed.
    """

    key: str
    exit_code: int
    seconds: float
    written: tuple[str, ...]
    detail: str = ""

    @property
    def ok(self) -> bool:
        """Whether the program ended well."""
        return self.exit_code == 0


def stored_result(folder: Path, key: str) -> Result | None:
    """Return the result of a run that was finished before; None where it has to run."""
    try:
        data = json.loads((folder / _RESULT).read_bytes())
        result = Result(**{**data, "written": tuple(data["written"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return result if result.key == key else None


def run_cell(
    cell: Cell,
    *,
    folder: Path,
    python: Path,
    script: Path,
    args: Sequence[str],
    base: Path,
    in_place: bool,
    key: str,
) -> Result:
    """Run one cell; what an earlier attempt left in its folder is removed.

    Args:
        cell: Which.
        folder: Its folder.
        python: The interpreter.
        script: The program, below `base`.
        args: Its arguments.
        base: The folder that it runs in, or in a copy of.
        in_place: Run in `base` itself.
        key: See `Result`.

    Raises:
        UsageError: `base` is too large to be copied.
        PathError: The folder cannot be written.
        KeyboardInterrupt: Passed on, when the program has ended.
    """
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(parents=True)
        work = base if in_place else _copy(base, folder / "work")
        before = _snapshot(work, folder)
        program = work / script.relative_to(base)
        command = [str(python), *(_guard(folder) if cell.guarded else ()), str(program), *args]
        began = time.perf_counter()
        code = _run(command, work, folder, _environment(cell))
        seconds = time.perf_counter() - began
        written = _keep(work, before, folder, move=not in_place)
        if not in_place:
            shutil.rmtree(folder / "work", ignore_errors=True)
        result = Result(
            key=key,
            exit_code=code,
            seconds=round(seconds, 3),
            written=tuple(written),
            detail=_last_line(folder / "stderr.txt") if code else "",
        )
        write_atomically(folder / _RESULT, json.dumps(asdict(result)).encode())
    except OSError as error:
        raise PathError.from_os_error(error, folder) from error
    return result


def _guard(folder: Path) -> tuple[str, ...]:
    return "-m", "everybit", "run", "--run", str(folder / "run")


def _environment(cell: Cell) -> dict[str, str]:
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    environ.pop("EVERYBIT_RUN", None)
    if cell.threads is not None:
        environ |= dict.fromkeys(_THREADS, str(cell.threads))
    return environ


def _run(command: list[str], work: Path, folder: Path, environ: dict[str, str]) -> int:
    with (folder / "stdout.txt").open("wb") as out, (folder / "stderr.txt").open("wb") as errors:
        process = subprocess.Popen(
            command,
            cwd=work,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            start_new_session=True,  # Ctrl-C is ours to hand on, to all that it has started.
        )
        try:
            return process.wait()
        except BaseException:
            _end(process)
            raise


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
            return


def _copy(base: Path, work: Path) -> Path:
    total = 0
    for path in _files(base, work.parent):
        total += path.lstat().st_size
        if total > MAX_COPY_BYTES:
            raise UsageError(
                f"it holds more than {MAX_COPY_BYTES >> 30} GiB, too much to copy for each run",
                where=str(base),
                todo="run from a smaller folder, or with --in-place",
            )
    for path in _files(base, work.parent):
        target = work / path.relative_to(base)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            # To data elsewhere, mostly: a relative link would lead nowhere from here.
            target.symlink_to(path.resolve())
        else:
            shutil.copy2(path, target)
    work.mkdir(exist_ok=True)
    return work


def _files(base: Path, *without: Path) -> list[Path]:
    """Return the files below a folder: no caches, no environments, no run folders."""
    found = []
    for root, folders, names in os.walk(base):
        here = Path(root)
        folders[:] = sorted(
            name
            for name in folders
            if name not in _LEFT_OUT
            and here / name not in without
            and not (here / name / "pyvenv.cfg").is_file()
            and not (here / name / "run.json").is_file()
            and not (here / name / MARK).is_file()
        )
        found += [here / name for name in sorted(names)]
        found += [here / name for name in folders if (here / name).is_symlink()]
    return found


def _snapshot(work: Path, folder: Path) -> dict[str, tuple[int, int]]:
    found = {}
    for path in _files(work, folder):
        told = path.lstat()
        found[path.relative_to(work).as_posix()] = (told.st_size, told.st_mtime_ns)
    return found


def _keep(work: Path, before: dict[str, tuple[int, int]], folder: Path, *, move: bool) -> list[str]:
    """Keep what was written, apart from what was there; return the names."""
    after = _snapshot(work, folder)
    written = [name for name, told in after.items() if before.get(name) != told]
    for name in written:
        target = folder / "written" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if move:
            (work / name).rename(target)
        else:
            shutil.copy2(work / name, target)
    return written


def _last_line(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    told = [line.strip() for line in lines if line.strip() and not line.startswith("everybit")]
    return told[-1][:200] if told else ""

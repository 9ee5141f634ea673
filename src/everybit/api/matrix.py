"""`matrix`: one script again and again, under other threads and versions of torch, all compared."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from everybit._version import __version__
from everybit.api.matrix_cell import MARK, Cell, Result, run_cell, stored_result
from everybit.api.matrix_compare import Answer, Comparison, compare_cells
from everybit.api.matrix_install import (
    GUARDED,
    CannotInstallError,
    Installer,
    PipInstaller,
    check_version,
)
from everybit.api.program import find_program
from everybit.core.atomic import write_atomically
from everybit.core.errors import PathError, UsageError
from everybit.core.finding import Finding, Location, Severity
from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.core.verdict import Checked, Coverage, Skipped, Verdict
from everybit.host.code import read_code
from everybit.host.versions import release

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

_SCHEMA: Final = "everybit.matrix/1"
_MAX_RUNS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """What a matrix found.

    Attributes:
        folder: Where its runs lie.
        verdict: Does it repeat, and where not; `stats` holds runs and comparisons.
        results: How each run ended, by cell, in order.
        comparisons: Each run against the first, and against the first of its own setting.
        not_installed: Why a version of torch could not be had, by version.
    """

    folder: Path
    verdict: Verdict
    results: dict[Cell, Result]
    comparisons: tuple[Comparison, ...]
    not_installed: dict[str, str]


def matrix(
    script: str | os.PathLike[str],
    args: Sequence[str] = (),
    *,
    repeat: int = 2,
    threads: Sequence[int] = (),
    torch: Sequence[str] = (),
    out: str | os.PathLike[str] | None = None,
    requirements: str | os.PathLike[str] | None = None,
    in_place: bool = False,
    fresh: bool = False,
    installer: Installer | None = None,
    progress: Callable[[int, int, str], None] = lambda *_: None,
) -> Matrix:
    """Run a script `repeat` times under each number of threads and version of torch; compare all.

    Each run has a folder of its own, and runs in a copy of the folder that the script is run from,
    so that no run reads what another wrote. Versions of torch other than the one installed get a
    virtual environment each, which is kept. Versions that a Guard works with (2.6 and newer) run
    under `everybit run` and are compared value by value; older ones by what they print and write.

    Args:
        script: The script, below the working directory.
        args: Its arguments.
        repeat: How often under each setting, from 1.
        threads: Numbers of threads; where empty, as it is.
        torch: Versions; where empty, the one installed.
        out: Folder of the runs; `everybit-matrix/<script>` where None. Finished runs of the same
            program in it are used again.
        requirements: What the script needs beside torch, for pip, where versions are installed.
        in_place: Run in the working directory itself and not in copies of it.
        fresh: Run again what was finished before.
        installer: Hands out interpreters; pip where None.
        progress: Told how many runs are done, of how many, and which comes next.

    Returns:
        What was found. A run that parts from its own repeat is an error; one that parts under
        other threads or another version a warning.

    Raises:
        UsageError: A number or version is none, torch is not installed, the first run ends badly,
            or the folder is too large to be copied.
        PathError: The script cannot be read, or `out` cannot be used.
    """
    began = time.perf_counter()
    find_program(str(script), module=False)
    cells = _cells(repeat, threads, torch)
    base, program = _base(Path(script), in_place=in_place)
    folder = Path(out) if out is not None else Path("everybit-matrix") / program.stem
    _claim(folder)
    needed = Path(requirements) if requirements is not None else None
    installer = installer or PipInstaller(needed)
    key = _key(program, args, needed, in_place=in_place)
    pythons: dict[str, Path | None] = {}
    not_installed: dict[str, str] = {}
    results: dict[Cell, Result] = {}
    for number, cell in enumerate(cells):
        progress(number, len(cells), cell.name)
        if cell.torch not in pythons:
            pythons[cell.torch] = None
            try:
                pythons[cell.torch] = _python(cell.torch, installer)
            except CannotInstallError as error:
                not_installed[cell.torch] = str(error)
        python = pythons[cell.torch]
        if python is None:
            continue
        place = folder.absolute() / cell.name
        found = None if fresh else stored_result(place, key)
        results[cell] = found or run_cell(
            cell,
            folder=place,
            python=python,
            script=program,
            args=args,
            base=base,
            in_place=in_place,
            key=key,
        )
    progress(len(cells), len(cells), "")
    if results and not any(result.ok for result in results.values()):
        first, result = next(iter(results.items()))
        raise UsageError(
            f"its first run ended badly ({result.detail or f'exit code {result.exit_code}'})",
            where=str(script),
            todo=f"{folder / first.name / 'stderr.txt'} says more; run it with `python` first",
        )
    comparisons = _compare(results, folder)
    verdict = _verdict(script, cells, results, comparisons, not_installed, folder, began)
    return Matrix(
        folder=folder,
        verdict=verdict,
        results=results,
        comparisons=tuple(comparisons),
        not_installed=not_installed,
    )


def _cells(repeat: int, threads: Sequence[int], torch: Sequence[str]) -> list[Cell]:
    for name, values in (("--repeat", [repeat]), ("--threads", threads)):
        for value in values:
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UsageError(f"{name} {value!r} is no whole number of 1 or more")
    versions = list(dict.fromkeys(check_version(each) for each in torch)) or [_installed()]
    cells = [
        Cell(torch=version, threads=number, repeat=turn, guarded=release(version) >= GUARDED)
        for version in versions
        for number in (dict.fromkeys(threads) or (None,))
        for turn in range(1, repeat + 1)
    ]
    if len(cells) == 1:
        raise UsageError("one run has nothing to be compared with", todo="ask for --repeat 2")
    if len(cells) > _MAX_RUNS:
        raise UsageError(f"these are {len(cells)} runs", todo=f"ask for at most {_MAX_RUNS}")
    return cells


def _installed() -> str:
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError as error:
        raise UsageError("torch is not installed here", todo="name versions: --torch") from error


def _python(version: str, installer: Installer) -> Path:
    with contextlib.suppress(metadata.PackageNotFoundError):
        here = metadata.version("torch")
        if version in (here, here.partition("+")[0]):
            return Path(sys.executable)
    return installer.python(version)


def _base(script: Path, *, in_place: bool) -> tuple[Path, Path]:
    """Return the folder to run in, or in copies of, and the script in it."""
    program, here = script.resolve(), Path.cwd().resolve()
    if program.is_relative_to(here):
        return here, program
    if in_place:
        raise UsageError(
            "it is not below the working directory", where=str(script), todo="leave out --in-place"
        )
    return program.parent, program


def _claim(folder: Path) -> None:
    """Make the folder of the runs, or see that it is one."""
    try:
        if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).is_file():
            raise PathError("holds something else", where=str(folder), todo="name a new --out")
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / MARK, json.dumps({"schema": _SCHEMA}).encode())
    except OSError as error:
        raise PathError.from_os_error(error, folder) from error


def _key(program: Path, args: Sequence[str], needed: Path | None, *, in_place: bool) -> str:
    """Return what a finished run has to be of, to be used again: code, arguments, interpreter."""
    told = [
        read_code(str(program)),
        list(args),
        needed.read_text(encoding="utf-8") if needed is not None else "",
        sys.version,
        __version__,
        in_place,
    ]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]


def _compare(results: dict[Cell, Result], folder: Path) -> list[Comparison]:
    """Compare each run with the first, and with the first of its own setting."""
    ended = [(cell, result) for cell, result in results.items() if result.ok]
    found: list[Comparison] = []
    firsts: dict[tuple[str, int | None], tuple[Cell, Result]] = {}
    for pair in ended:
        own = firsts.setdefault(pair[0].setting, pair)
        against = {ended[0][0].name: ended[0], own[0].name: own}
        found += [
            compare_cells(other, pair, folder) for other in against.values() if other is not pair
        ]
    return found


def _verdict(
    script: str | os.PathLike[str],
    cells: list[Cell],
    results: dict[Cell, Result],
    comparisons: list[Comparison],
    not_installed: dict[str, str],
    folder: Path,
    began: float,
) -> Verdict:
    by_name = {cell.name: cell for cell in cells}
    skipped = [
        Skipped(what=f"torch {version}", why=f"it cannot be installed ({why})")
        for version, why in not_installed.items()
    ]
    skipped += [
        Skipped(
            what=cell.name,
            why=f"it ended badly ({result.detail or f'exit code {result.exit_code}'})",
        )
        for cell, result in results.items()
        if not result.ok
    ]
    skipped += [
        Skipped(what=f"{each.b} against {each.a}", why=each.why)
        for each in comparisons
        if each.answer is Answer.UNKNOWN
    ]
    findings = [
        _finding(each, by_name) for each in _told_once(comparisons, by_name)
    ] + _found_by_runs(results, folder)
    stats: dict[str, Any] = {
        "runs": len(results),
        "seconds": round(time.perf_counter() - began, 3),
        "matrix": {
            "runs": [
                {
                    "name": cell.name,
                    "torch": cell.torch,
                    "threads": cell.threads,
                    "repeat": cell.repeat,
                    "guarded": cell.guarded,
                    "exit_code": results[cell].exit_code if cell in results else None,
                    "seconds": results[cell].seconds if cell in results else None,
                }
                for cell in cells
            ],
            "comparisons": [each.to_json() for each in comparisons],
        },
    }
    return Verdict(
        command="matrix",
        target=(str(script),),
        findings=tuple(findings),
        coverage=Coverage(
            checked=(Checked(what="comparisons", count=len(comparisons)),), skipped=tuple(skipped)
        ),
        stats=stats,
    )


def _told_once(comparisons: list[Comparison], by_name: dict[str, Cell]) -> list[Comparison]:
    """Return the partings that are findings: repeats, and one a setting against the first."""
    found, settings = [], set()
    for each in comparisons:
        if each.answer is not Answer.PARTS:
            continue
        a, b = by_name[each.a], by_name[each.b]
        if a.setting == b.setting:
            found.append(each)
        elif b.setting not in settings:
            settings.add(b.setting)
            found.append(each)
    return found


def _finding(comparison: Comparison, by_name: dict[str, Cell]) -> Finding:
    repeats = by_name[comparison.a].setting == by_name[comparison.b].setting
    head = "does not repeat" if repeats else "is not the same"
    kind = f" ({comparison.kind})" if comparison.kind else ""
    where = comparison.where or Location(run=comparison.b, link=Link.OUTPUT)
    return rule("DIF181").finding(
        f"{comparison.b} {head}: it parts from {comparison.a}{kind}: {comparison.why}",
        where=where,
        evidence={
            "against": comparison.a,
            "by": comparison.by,
            "kind": comparison.kind,
            "explained_by": [dict(item) for item in comparison.explained_by[:8]],
        },
        severity=Severity.ERROR if repeats else Severity.WARNING,
        remedy="`everybit diff` of the two run folders says more; `everybit.seed_everything` sets"
        " what makes runs repeat."
        if repeats
        else "Other threads and versions round otherwise; align them, or judge by a tolerance.",
    )


def _found_by_runs(results: dict[Cell, Result], folder: Path) -> list[Finding]:
    """Return the errors that the runs themselves recorded (damage at rest, NaN)."""
    found = []
    for cell in results:
        try:
            told = json.loads((folder / cell.name / "run" / "verdict.json").read_bytes())
            listed = [Finding.from_json(data) for data in told["findings"]]
        except (OSError, ValueError, TypeError, KeyError):
            continue
        found += [each for each in listed if each.severity is Severity.ERROR]
    return found

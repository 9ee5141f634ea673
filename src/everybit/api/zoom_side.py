"""Whether a recorded run can be computed again here: its program, its arguments, its machine."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from everybit.host import capture_environment
from everybit.host.argv import HIDDEN
from everybit.host.code import read_code
from everybit.host.read_files import name_of, roots_of
from everybit.host.variables import NAMES, PREFIXES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.diff.side import RunSide

#: Entries of the environment that decide which bits a computation gives.
_OF_MACHINE: Final = (
    ("torch", "version"),
    ("torch", "git_version"),
    ("torch", "cpu_capability"),
    ("cpu", "model"),
    ("cpu", "flags_digest"),
    ("python", "version"),
)
#: Settings of a Guard that bear on what it records, or when.
_SETTINGS: Final = ("every", "gradients", "numerics", "scrub_percent", "shadow")


class CannotRunError(Exception):
    """A run cannot be computed again here; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """How to run the program of a recorded run again.

    Attributes:
        target: The script, or with `module` the module.
        args: Its arguments.
        module: Run it as `python -m` does.
        folder: Where it ran.
        outer: A Guard stood around it (`everybit run`); else it made its own.
        run_name: Name of its run folder.
        settings: Of that Guard.
        variables: Environment variables that bear on numbers, as they were.
        script: Path of the script.
        files: Digests of the small files that it read before its first step, by name.
        began_s: When it began, in seconds since the epoch; None where that is not on record.
    """

    target: str
    args: tuple[str, ...]
    module: bool
    folder: Path
    outer: bool
    run_name: str
    settings: Mapping[str, Any]
    variables: Mapping[str, str] = field(default_factory=dict)
    script: Path = Path()
    files: Mapping[str, str] = field(default_factory=dict)
    began_s: float | None = None

    def recorded(self, path: Path) -> str | None:
        """Return the digest that a file had when it was read; None where it is not on record."""
        name = name_of(str(path), roots_of(str(self.script), str(self.folder)))
        return None if name is None else self.files.get(name)


def find_program_of(side: RunSide, here: Mapping[str, Any] | None = None) -> Program:
    """Return how to run a side again.

    Args:
        side: The recorded run.
        here: The environment of this machine; asked for where None.

    Raises:
        CannotRunError: It cannot be; says why.
    """
    if len(side.ranks) > 1:
        raise CannotRunError(
            f"it has {len(side.ranks)} ranks, which reduce their gradients together: one process"
            " alone does not come to its steps; of a rank a capsule of the step is computed again"
            " where it kept one, and it kept none"
        )
    if not side.command:
        raise CannotRunError("its record does not tell the command")
    _check_machine(side.environment, here or capture_environment(load_torch=True))
    if any(HIDDEN in part for part in side.command):
        raise CannotRunError("an argument of its command is hidden in the record (a secret)")
    folder = Path(str((side.environment.get("process") or {}).get("folder") or "."))
    if not folder.is_dir():
        raise CannotRunError(f"the folder it ran in is gone ({folder})")
    script = side.command[1] if len(side.command) > 1 else ""
    path = folder / script
    if script in ("", "-c", "-") or not path.is_file():
        raise CannotRunError(f"its script is not here ({script or 'none was named'})")
    if path.suffix != ".py":
        raise CannotRunError(f"{script} is no Python script of its own")
    _check_code(side, folder, path)
    module = _module_of(path, folder)
    began = side.environment.get("captured_at")
    return Program(
        target=module or script,
        args=tuple(side.command[2:]),
        module=bool(module),
        folder=folder,
        outer=bool(side.config.get("run")),
        run_name=Path(str(side.config.get("run") or side.path)).name,
        settings={name: side.config[name] for name in _SETTINGS if name in side.config},
        variables=_variables(side.environment),
        script=path,
        files=(side.read_files or {}).get("files") or {},
        began_s=float(began) if isinstance(began, (int, float)) else None,
    )


def environment_of(program: Program) -> dict[str, str]:
    """Return the environment variables to run it with: this process's, and the recorded ones."""
    known = {
        name: value
        for name, value in os.environ.items()
        if not (name in NAMES or name.startswith(PREFIXES))
    }
    known.pop("EVERYBIT_RUN", None)
    return {**known, **program.variables, "PYTHONUNBUFFERED": "1"}


def command_of(spec: Path) -> Sequence[str]:
    """Return the command that runs a program again."""
    return (sys.executable, "-m", "everybit.api.zoomed", str(spec))


def _check_machine(then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for section, name in _OF_MACHINE:
        before = (then.get(section) or {}).get(name)
        after = (now.get(section) or {}).get(name)
        if before is not None and after is not None and before != after:
            what = f"{section}.{name}"
            raise CannotRunError(
                f"it ran on another machine or torch: {what} was {before} and is {after} here"
            )


def _check_code(side: RunSide, folder: Path, script: Path) -> None:
    """Refuse a program that was changed since, as far as the record tells."""
    code = side.environment.get("code") or {}
    if "script" in code:
        changed = ", ".join(_changed_files(code, script)[:4])
        if changed:
            raise CannotRunError(f"its code was changed since it ran: {changed}")
        return
    then = side.environment.get("captured_at")
    if not isinstance(then, (int, float)):
        return
    git = side.environment.get("git") or {}
    if "commit" in git and not _same_commit(git, folder):
        raise CannotRunError("its repository is not at the commit and changes that it ran from")
    if "commit" not in git and script.stat().st_mtime > then:
        raise CannotRunError(f"{script.name} was written to since it ran")


def _changed_files(then: Mapping[str, str], script: Path) -> list[str]:
    """Return the program's own files that are new, gone, or other than recorded."""
    now = read_code(str(script))
    return [name for name in {**then, **now} if then.get(name) != now.get(name)]


def _same_commit(then: Mapping[str, Any], folder: Path) -> bool:
    from everybit.host.repository import read_repository

    try:
        now = read_repository(folder, keep_diff=False)
    except Exception:
        return True  # What it gives is compared with the record anyway.
    return all(then.get(name) == now.get(name) for name in ("commit", "diff_digest"))


def _module_of(path: Path, folder: Path) -> str:
    """Return the name under which `python -m` ran a file of a package, "" for a plain script."""
    if not (path.parent / "__init__.py").is_file():
        return ""
    parts = [] if path.name == "__main__.py" else [path.stem]
    at = path.resolve().parent
    while (at / "__init__.py").is_file():
        parts.insert(0, at.name)
        at = at.parent
    return ".".join(parts) if at == folder.resolve() else ""


def _variables(environment: Mapping[str, Any]) -> dict[str, str]:
    section = environment.get("variables") or {}
    return {name: value for name, value in section.items() if isinstance(value, str)}

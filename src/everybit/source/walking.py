"""Which files of a folder are read: code, notebooks and the texts that set variables."""

from __future__ import annotations

import fnmatch
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from everybit.core.verdict import Skipped
from everybit.source.texts import Kind, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Folders that hold no code of the project.
SKIPPED_FOLDERS: Final = frozenset(
    {
        ".git", ".hg", ".svn", ".bzr", "node_modules", "__pycache__", ".tox", ".nox", ".venv",
        ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".ipynb_checkpoints",
        ".eggs", "__pypackages__", ".direnv", ".pixi",
    }
)  # fmt: skip
_PYTHON: Final = re.compile(rb"^#!.*\bpython[\d.]*\b")
_FIRST: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A file to be read.

    Attributes:
        path: Where it lies.
        shown: Its name in findings.
        kind: What it is; None for Python code and notebooks.
    """

    path: Path
    shown: str
    kind: Kind | None


def is_code(path: Path) -> bool:
    """Return whether a file is Python code or a notebook by its name."""
    return path.suffix.lower() in (".py", ".pyw", ".ipynb")


def walk_files(
    target: Path,
    exclude: Sequence[str] = (),
    *,
    relative: bool = True,
    passed_over: list[Skipped] | None = None,
) -> Iterator[Found]:
    """Yield the files of a folder that can be read, in a fixed order, or the one file named.

    Symbolic links to folders are not followed: they lead out of the project, or in circles.

    Args:
        target: A folder or a file.
        exclude: Patterns (`legacy/*`, `*_pb2.py`, `vendor`) of names, and of paths below `target`.
        relative: Whether names in findings begin below `target`, not with it.
        passed_over: Takes the folders that cannot be read, and the links that lead elsewhere.
    """
    skipped = passed_over if passed_over is not None else []
    if not target.is_dir():
        yield from _one(target, target.as_posix(), named=True)
        return

    def failed(error: OSError) -> None:
        place = Path(error.filename)
        shown = place.relative_to(target) if relative and place != target else place
        why = (error.strerror or str(error)).lower()
        skipped.append(Skipped(what=f"the folder {shown.as_posix()}", why=why))

    for folder, names, files in os.walk(target, onerror=failed):
        here = Path(folder)
        below = here.relative_to(target)
        names[:] = sorted(
            name
            for name in names
            if name not in SKIPPED_FOLDERS
            and not _is_excluded(below / name, exclude)
            and not (here / name / "pyvenv.cfg").exists()
        )
        for name in names:
            if (here / name).is_symlink() and not _leads_inside(here / name, target):
                shown = (below if relative else here) / name
                why = "a link to a folder elsewhere is not followed: name that folder as well"
                skipped.append(Skipped(what=shown.as_posix(), why=why, promised=False))
        for name in sorted(files):
            if not _is_excluded(below / name, exclude):
                shown = (below if relative else here) / name
                yield from _one(here / name, shown.as_posix(), named=False)


def _one(path: Path, shown: str, *, named: bool) -> Iterator[Found]:
    if is_code(path):
        yield Found(path=path, shown=shown, kind=None)
        return
    first = b"" if path.suffix else _first_of(path)
    kind = kind_of(path, first)
    if kind is not None:
        yield Found(path=path, shown=shown, kind=kind)
    elif _PYTHON.match(first) or named:
        # Named on purpose, it is code whatever its name: it will not parse where it is not.
        yield Found(path=path, shown=shown, kind=None)


def _leads_inside(link: Path, target: Path) -> bool:
    """Return whether a link leads to a folder that is walked through anyway, or to none."""
    try:
        return link.resolve().is_relative_to(target.resolve())
    except (OSError, RuntimeError):  # in a circle
        return True


def _first_of(path: Path) -> bytes:
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(_FIRST).partition(b"\n")[0]
    except OSError:
        return b""


def _is_excluded(path: Path, patterns: Sequence[str]) -> bool:
    text = path.as_posix()
    return any(
        fnmatch.fnmatchcase(text, pattern.rstrip("/").removeprefix("./"))
        or fnmatch.fnmatchcase(path.name, pattern.rstrip("/"))
        for pattern in patterns
    )

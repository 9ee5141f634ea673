"""Which files of a folder are scanned: all of them, each once, wherever links lead to them."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from everybit.core.errors import PathError
from everybit.core.verdict import Skipped
from everybit.files.scans.names import is_model, is_pickled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Folders of version control and of compiled Python: no loader looks into them.
_NOT_MODELS: Final = frozenset({".git", ".hg", ".svn", "__pycache__"})
#: Folders of a download cache that hold the files to which readable names lead.
_BLOBS: Final = "blobs"
_MAX_DEPTH: Final = 200


@dataclass(slots=True, eq=False, repr=False)
class Folder:
    """The files of a folder.

    Attributes:
        files: By path relative to the folder; a file with several names is there once.
        skipped: What was not walked into.
        num_ignored: Folders of version control that were left out.
    """

    files: dict[str, Path] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)
    num_ignored: int = 0


def list_folder(folder: Path) -> Folder:
    """Return all regular files of a folder and of those below it.

    Links to files are followed, as a loader would. Links to folders are followed where they stay
    inside; one that leads out is told as not looked into.

    Raises:
        PathError: The folder itself cannot be read.
    """
    found = Folder()
    seen: dict[tuple[int, int], str] = {}
    top = folder.resolve()
    try:
        os.scandir(folder).close()
    except OSError as error:
        raise PathError.from_os_error(error, folder) from error
    for path in sorted(_walk(folder, top, (), found), key=_readable_names_first):
        name = path.relative_to(folder).as_posix()
        try:
            there = path.stat()
        except OSError as error:
            found.skipped.append(Skipped(what=name, why=f"it cannot be read: {error.strerror}"))
            continue
        if seen.setdefault((there.st_dev, there.st_ino), name) == name:
            found.files[name] = path
    found.files = dict(sorted(found.files.items()))
    return found


def _readable_names_first(path: Path) -> tuple[bool, str]:
    return _BLOBS in path.parts, path.as_posix()


def _walk(folder: Path, top: Path, above: tuple[Path, ...], found: Folder) -> Iterator[Path]:
    real = folder.resolve()
    if len(above) > _MAX_DEPTH:
        why = f"it lies more than {_MAX_DEPTH} folders deep"
        found.skipped.append(Skipped(what=str(folder), why=why))
        return
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        found.skipped.append(Skipped(what=str(folder), why=f"it cannot be read: {error.strerror}"))
        return
    for entry in entries:
        path = folder / entry.name
        if _leads_to_folder(entry):
            if entry.name in _NOT_MODELS:
                found.num_ignored += 1
                continue
            target = path.resolve()
            if target in (*above, real):
                continue  # a circle: it is walked through already
            if target != top and top not in target.parents:
                why = "it is a link to a folder elsewhere; name that one too"
                found.skipped.append(Skipped(what=str(path.relative_to(folder)), why=why))
                continue
            yield from _walk(path, top, (*above, real), found)
            continue
        why, promised = _not_a_file(path)
        if why:
            name = str(path.relative_to(folder))
            found.skipped.append(Skipped(what=name, why=why, promised=promised))
        else:
            yield path


def _not_a_file(path: Path) -> tuple[str, bool]:
    """Return why a path is no file that can be read, or "", and whether one was promised."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if path.is_symlink() and error.errno in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR):
            return "it is a link that leads nowhere", False
        return f"it cannot be read: {error.strerror}", True
    if stat.S_ISREG(mode):
        return "", False
    # Who reads a pipe under a model's name gets what somebody else writes into it.
    return "it is no regular file", is_model(path.name) or is_pickled(path.name)


def _leads_to_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False

"""Which files of a folder are meant: for sealing all of them, for verifying the models."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from everybit.core.errors import PathError
from everybit.files.identify import identify
from everybit.files.parity.record import PARITY_NAME
from everybit.files.seals.manifest import MANIFEST_NAME, OWN_NAMES
from everybit.files.sniff import looks_like_model_name
from everybit.files.source import ByteSource
from everybit.files.tensor import FileFormat

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Folders that hold the business of other tools.
_NOT_OURS: Final = frozenset({".git", ".hg", ".svn", ".cache", "__pycache__"})
_OUR_OWN: Final = frozenset({*OWN_NAMES, PARITY_NAME})
#: What `repair --keep` names the damaged original.
KEPT_SUFFIX: Final = ".damaged"
_TEMPORARY: Final = (".tmp", ".part", ".partial", ".swp", ".lock", ".incomplete", "~")


def list_files(folder: Path, *, dangling: bool = False) -> dict[str, Path]:
    """Return every file that sealing the folder covers, by its path relative to it.

    All regular files, except manifests, parity, damaged originals that `repair` kept, hidden
    temporary files, and what lies in folders of version control. Links to files are followed
    wherever they lead, since a loader would follow them; links to folders only where they stay
    inside, and never in a circle.

    Args:
        folder: The folder.
        dangling: List links that lead nowhere, or in a circle, too.

    Raises:
        PathError: A folder cannot be read; or a link leads nowhere, unless `dangling`.
    """
    found = {}
    for path in _walk(folder, folder.resolve(), ()):
        if not dangling and not path.exists():
            raise PathError(
                "is a link that leads nowhere or in a circle",
                where=str(path),
                todo="fetch what it names, or remove it",
            )
        name = path.name
        if name in _OUR_OWN or _is_temporary(name):
            continue
        if name.endswith(KEPT_SUFFIX):
            continue
        found[path.relative_to(folder).as_posix()] = path
    return dict(sorted(found.items()))


def list_manifests(folder: Path) -> list[str]:
    """Return where manifests lie in a folder: "" for its own, `sub/` for one in a folder below.

    Raises:
        PathError: A folder cannot be read.
    """
    return [
        path.relative_to(folder).as_posix().removesuffix(MANIFEST_NAME)
        for path in _walk(folder, folder.resolve(), ())
        if path.name == MANIFEST_NAME
    ]


def _walk(folder: Path, top: Path, above: tuple[Path, ...]) -> Iterator[Path]:
    try:
        real = folder.resolve()
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        for entry in entries:
            path = folder / entry.name
            if _leads_to_folder(entry):
                target = path.resolve()
                inside = target == top or top in target.parents
                if entry.name in _NOT_OURS or not inside or target in (*above, real):
                    continue
                if _is_temporary(entry.name):
                    continue  # what a killed save of a `Vault` left
                yield from _walk(path, top, (*above, real))
            elif path.is_file() or (entry.is_symlink() and not path.exists()):
                yield path
    except OSError as error:
        raise PathError.from_os_error(error, error.filename or folder) from error


def _is_temporary(name: str) -> bool:
    return name.startswith(".") and name.endswith(_TEMPORARY)


def _leads_to_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        # A link in a circle, or to a place that cannot be looked at: no folder to walk into.
        if entry.is_symlink():
            return False
        raise


def holds_model(path: Path) -> bool:
    """Return whether a file is a model by its name or by its content."""
    if looks_like_model_name(path.name):
        return True
    with ByteSource(path) as source:
        kind = identify(source)
        if kind is FileFormat.ZIP:
            # `torch.save` writes the pickle record first.
            return b"/data.pkl" in source.read(0, 512)
        return kind.readable

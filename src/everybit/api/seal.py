"""`seal`: remember what files hold, in a manifest beside them."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from everybit._version import __version__
from everybit.core.atomic import check_writable, write_atomically
from everybit.core.errors import DamagedError, PathError
from everybit.files.damage import MalformedError
from everybit.files.folder import list_files
from everybit.files.manifest import MANIFEST_NAME, Manifest, SealedFile, load_manifest
from everybit.files.passes import no_progress
from everybit.files.sealing import seal_file

if TYPE_CHECKING:
    import os
    from collections.abc import Callable


def seal(
    *paths: str | os.PathLike[str], progress: Callable[[int], None] = no_progress
) -> list[Path]:
    """Seal files and folders: write `MANIFEST.everybit.json` beside what they hold.

    A folder gets a manifest of all its files. A single file goes into the manifest of its own
    folder, beside the entries of other files that are there already. Everything is read before
    anything is written; each manifest is replaced whole or not at all.

    Args:
        paths: Files and folders.
        progress: Is told the bytes read, as they are.

    Returns:
        The manifests written, in the order of the paths, each once.

    Raises:
        PathError: Something cannot be read or written, changes while it is read, or a folder
            holds no file.
        DamagedError: A file is damaged, or a manifest that is to be kept is; names the rule.
            Nothing is written then.
    """
    if not paths:
        raise PathError("nothing to seal", todo="name a file or a folder")
    manifests: dict[Path, dict[str, SealedFile]] = {}
    for given in paths:
        path = Path(given)
        if path.is_dir():
            folder, files = path, list_files(path)
            if not files:
                raise PathError("holds no file to seal", where=str(path), todo="name another one")
            manifests[folder] = {}
        else:
            if path.name == MANIFEST_NAME:
                raise PathError("is a manifest", where=str(path), todo="name what it describes")
            folder, files = path.parent, {path.name: path}
        check_writable(folder / MANIFEST_NAME)
        if folder not in manifests:
            manifests[folder] = _kept(folder)
        for name, place in files.items():
            manifests[folder][name] = seal_file(place, name, progress=progress)
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    written = []
    for folder, entries in manifests.items():
        manifest = Manifest(files=entries, sealed_at=now, sealed_by=f"everybit {__version__}")
        write_atomically(folder / MANIFEST_NAME, manifest.encode())
        written.append(folder / MANIFEST_NAME)
    return written


def _kept(folder: Path) -> dict[str, SealedFile]:
    try:
        manifest = load_manifest(folder)
    except MalformedError as error:
        raise DamagedError(
            error.what,
            rule="FIL110",
            where=str(folder / MANIFEST_NAME),
            todo="restore it, or seal the whole folder again",
        ) from error
    return dict(manifest.files) if manifest is not None else {}

"""`seal`: remember what files hold, in a manifest beside them."""

from __future__ import annotations

import datetime
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from everybit._version import __version__
from everybit.core.atomic import check_writable, write_atomically
from everybit.core.errors import DamagedError, PathError
from everybit.core.verdict import Checked, Coverage, Skipped, Verdict
from everybit.files.damage import MalformedError
from everybit.files.folder import list_files
from everybit.files.passes import no_progress
from everybit.files.seals.manifest import MANIFEST_NAME, Manifest, SealedFile, load_manifest
from everybit.files.seals.sealing import seal_file

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
    return seal_verdict(*paths, progress=progress)[1]


def seal_verdict(
    *paths: str | os.PathLike[str], progress: Callable[[int], None] = no_progress
) -> tuple[Verdict, list[Path]]:
    """Seal, and also return what was covered, as the verdict that the command line prints."""
    began = time.perf_counter()
    manifests = _gather(paths, progress)
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    written = []
    for folder, entries in manifests.items():
        everything = {**entries.kept, **entries.sealed}
        manifest = Manifest(files=everything, sealed_at=now, sealed_by=f"everybit {__version__}")
        write_atomically(folder / MANIFEST_NAME, manifest.encode())
        written.append(folder / MANIFEST_NAME)
    sealed = {
        (folder, name): file for folder, e in manifests.items() for name, file in e.sealed.items()
    }
    tensors = [tensor for file in sealed.values() for tensor in file.tensors]
    checked = [Checked(what="files sealed", count=len(sealed))]
    if tensors:
        checked.append(Checked(what="tensors sealed", count=len(tensors)))
    skipped = tuple(
        Skipped(
            what=f"{name}: digest of tensor {tensor.name}",
            why=tensor.unreadable or "it repeats its storage too often; the file's digest holds it",
            promised=False,
        )
        for (_, name), file in sealed.items()
        for tensor in file.tensors
        if tensor.tree is None
    )
    verdict = Verdict(
        command="seal",
        target=tuple(str(path) for path in paths),
        coverage=Coverage(checked=tuple(checked), skipped=skipped),
        stats={
            "bytes": sum(file.size_bytes for file in sealed.values()),
            "seconds": time.perf_counter() - began,
        },
    )
    return verdict, written


@dataclass(slots=True, kw_only=True)
class _Entries:
    """Entries of one manifest: those sealed now, and others that stay."""

    sealed: dict[str, SealedFile] = field(default_factory=dict)
    kept: dict[str, SealedFile] = field(default_factory=dict)


def _gather(
    paths: tuple[str | os.PathLike[str], ...], progress: Callable[[int], None]
) -> dict[Path, _Entries]:
    if not paths:
        raise PathError("nothing to seal", todo="name a file or a folder")
    manifests: dict[Path, _Entries] = {}
    for given in paths:
        path = Path(given)
        if path.is_dir():
            folder, files = path, list_files(path)
            if not files:
                raise PathError("holds no file to seal", where=str(path), todo="name another one")
            manifests[folder] = _Entries()
        else:
            if path.name == MANIFEST_NAME:
                raise PathError("is a manifest", where=str(path), todo="name what it describes")
            folder, files = path.parent, {path.name: path}
        manifest = folder / MANIFEST_NAME
        if manifest.is_symlink() and not manifest.exists():
            raise PathError(
                "is a link that leads nowhere or in a circle", where=str(manifest), todo="remove it"
            )
        check_writable(manifest)
        if folder not in manifests:
            manifests[folder] = _Entries(kept=_kept(folder))
        for name, place in files.items():
            manifests[folder].sealed[name] = seal_file(place, name, progress=progress)
    return manifests


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

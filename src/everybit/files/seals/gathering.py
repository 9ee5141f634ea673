"""From paths to manifests: what each folder's manifest will hold, before anything is written."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everybit.core.atomic import check_writable
from everybit.core.errors import DamagedError, PathError
from everybit.files.damage import MalformedError
from everybit.files.folder import list_files
from everybit.files.passes import no_progress
from everybit.files.seals.counters import agreed_step
from everybit.files.seals.manifest import (
    MANIFEST_NAME,
    OWN_NAMES,
    SIGNATURE_NAME,
    SUMS_NAME,
    Covers,
    Manifest,
    SealedFile,
    load_manifest,
    save_id_of,
)
from everybit.files.seals.sealing import read_and_seal
from everybit.files.trust.origin import NO_ORIGIN, Origin

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

Number = int | float


@dataclass(slots=True, kw_only=True)
class Gathered:
    """What goes into one folder's manifest.

    Attributes:
        covers: Whether the whole folder was given.
        old: The manifest that single files are added to; None where a new one is written.
        sealed: Entries of the files sealed now.
        counters: What these files count, by file.
        sha256: Whether the entries have it.
    """

    covers: Covers
    old: Manifest | None = None
    sealed: dict[str, SealedFile] = field(default_factory=dict)
    counters: dict[str, Mapping[str, Number]] = field(default_factory=dict)
    sha256: bool = False

    def manifest(self, *, sealed_at: str, sealed_by: str) -> Manifest:
        """Return the folder's new manifest.

        Files added to an old one leave it the save that it was; a file sealed anew makes it
        another.
        """
        old = self.old
        kept = old.files if old is not None else {}
        files = {**kept, **self.sealed}
        counters = _kept_counters(old, self.sealed)
        counters |= {
            f"{path}:{key}": value for path, told in self.counters.items() for key, value in
            told.items()
        }  # fmt: skip
        replaced = any(
            path in kept and kept[path].tree != entry.tree for path, entry in self.sealed.items()
        )
        same_save = old is not None and not replaced
        return Manifest(
            files=files,
            covers=self.covers,
            sealed_at=sealed_at,
            sealed_by=sealed_by,
            save_id=old.save_id if old is not None and same_save else save_id_of(files),
            step=_step(old if same_save else None, counters),
            counters=counters,
            parity=old.parity if old is not None else None,
        )


def gather(
    paths: tuple[str | os.PathLike[str], ...],
    *,
    sha256: bool = False,
    origin: Origin = NO_ORIGIN,
    progress: Callable[[int], None] = no_progress,
) -> dict[Path, Gathered]:
    """Read all that is to be sealed; nothing is written.

    Args:
        paths: Files and folders.
        sha256: Record SHA-256; a folder that was sealed with it keeps it in any case.
        origin: Where the files come from. What was recorded of a file before is kept while its
            bytes are the same, as far as this says nothing else.
        progress: Is told the bytes read, as they are.

    Raises:
        PathError: Something cannot be read or written, or a folder holds no file.
        DamagedError: A file is damaged, or a manifest that is to be kept is.
    """
    if not paths:
        raise PathError("nothing to seal", todo="name a file or a folder")
    found: dict[Path, Gathered] = {}
    before: dict[Path, Manifest | None] = {}
    for given in paths:
        path = Path(given)
        if path.is_dir():
            folder, files = path, list_files(path)
            if not files:
                raise PathError("holds no file to seal", where=str(path), todo="name another one")
        else:
            if path.name in OWN_NAMES:
                raise PathError(
                    "is written by everybit itself", where=str(path), todo="name what it describes"
                )
            folder, files = path.parent, {path.name: path}
        manifest = folder / MANIFEST_NAME
        if manifest.is_symlink() and not manifest.exists():
            raise PathError(
                "is a link that leads nowhere or in a circle", where=str(manifest), todo="remove it"
            )
        check_writable(manifest)
        check_writable(folder / SIGNATURE_NAME)
        if path.is_dir():
            before[folder] = _load(folder, keep=False)
            sums = sha256 or _has_sums(before[folder])
            found[folder] = Gathered(covers=Covers.FOLDER, sha256=sums)
        elif folder not in found:
            before[folder] = old = _load(folder, keep=True)
            found[folder] = Gathered(
                covers=old.covers if old is not None else Covers.FILES,
                old=old,
                sha256=sha256 or _has_sums(old),
            )
        target, earlier = found[folder], before[folder]
        if target.sha256:
            check_writable(folder / SUMS_NAME)
        for name, place in files.items():
            entry, told = read_and_seal(place, name, sha256=target.sha256, progress=progress)
            target.sealed[name] = replace(entry, origin=_origin(entry, earlier, origin))
            target.counters[name] = told.counters
    return found


def _load(folder: Path, *, keep: bool) -> Manifest | None:
    try:
        return load_manifest(folder)
    except MalformedError as error:
        if not keep:
            return None
        raise DamagedError(
            error.what,
            rule="FIL110",
            where=str(folder / MANIFEST_NAME),
            todo="restore it, or seal the whole folder again",
        ) from error
    except PathError:
        if not keep:
            return None
        raise


def _origin(entry: SealedFile, earlier: Manifest | None, origin: Origin) -> Origin:
    """Return what is known of a file's origin: what is said now, else what was said before."""
    known = earlier.files.get(entry.path) if earlier is not None else None
    kept = known.origin if known is not None and known.blake3 == entry.blake3 else NO_ORIGIN
    return Origin(source=origin.source or kept.source, license=origin.license or kept.license)


def _has_sums(manifest: Manifest | None) -> bool:
    return manifest is not None and any(file.sha256 for file in manifest.files.values())


def _kept_counters(old: Manifest | None, sealed: Mapping[str, Any]) -> dict[str, Number]:
    """Return an old manifest's counters without those of files that are sealed anew."""
    if old is None:
        return {}
    return {
        name: value for name, value in old.counters.items() if name.partition(":")[0] not in sealed
    }


def _step(old: Manifest | None, counters: Mapping[str, Number]) -> int | None:
    if old is not None and old.step is not None:
        return old.step
    by_file: dict[str, dict[str, Number]] = {}
    for name, value in counters.items():
        path, _, key = name.rpartition(":")
        by_file.setdefault(path, {})[key] = value
    return agreed_step(by_file)

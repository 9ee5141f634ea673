"""`verify`: do files still hold what was sealed, or what their own format promises."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from everybit.core.errors import PathError
from everybit.core.finding import Location
from everybit.core.rule import rule
from everybit.core.verdict import Checked, Coverage, Skipped, Verdict
from everybit.files.damage import MalformedError
from everybit.files.folder import holds_model, list_files
from everybit.files.manifest import MANIFEST_NAME, Manifest, SealedFile, load_manifest
from everybit.files.outcome import Outcome
from everybit.files.passes import no_progress
from everybit.files.sealed import check_sealed
from everybit.files.shard_index import is_index, shards_of
from everybit.files.source import ByteSource
from everybit.files.unsealed import check_unsealed

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from everybit.core.finding import Finding

Level = Literal["structure", "full"]


def verify(
    *paths: str | os.PathLike[str],
    level: Level = "full",
    strong: bool = False,
    progress: Callable[[int], None] = no_progress,
) -> Verdict:
    """Test whether files still hold the right bytes.

    A sealed file is held against its manifest: one read of all its bytes, and where they differ,
    the tensors, elements and bits. Any other file is tested as far as its format allows.

    Args:
        paths: Files and folders. A folder means all that its manifest lists and every model in it.
        level: `full` reads every byte; `structure` tests sizes and structure only.
        strong: Compare BLAKE3 digests as well.
        progress: Is told the bytes read, as they are.

    Returns:
        The verdict. `inconclusive` where bytes had nothing to be held against.

    Raises:
        PathError: A path cannot be opened.
    """
    if not paths:
        raise PathError("nothing to verify", todo="name a file or a folder")
    if level not in ("structure", "full"):
        raise PathError(f"no level {level!r}", todo="choose structure or full")
    began = time.perf_counter()
    work = _Verify(full=level == "full", strong=strong, progress=progress)
    total = Outcome()
    for given in paths:
        path = Path(given)
        total.add(work.folder(path) if path.is_dir() else work.file(path))
    checked = tuple(Checked(what=what, count=number) for what, number in total.checked.items())
    return Verdict(
        command="verify",
        target=tuple(str(path) for path in paths),
        findings=tuple(total.findings),
        coverage=Coverage(checked=checked, skipped=tuple(total.skipped)),
        stats={"bytes": total.num_bytes, "seconds": time.perf_counter() - began},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verify:
    full: bool
    strong: bool
    progress: Callable[[int], None]

    def folder(self, folder: Path) -> Outcome:
        """Verify what a folder's manifest lists and every model in it."""
        outcome = Outcome()
        manifest, damaged = _load(folder, "")
        if damaged is not None:
            outcome.findings.append(damaged)
            outcome.skipped.append(_no_seals(MANIFEST_NAME))
        files = list_files(folder)
        sealed = manifest.files if manifest is not None else {}
        for name, entry in sealed.items():
            outcome.add(self.sealed(folder / name, entry, name))
        for name, path in files.items():
            if name in sealed or not holds_model(path):
                continue
            if manifest is not None:
                outcome.findings.append(_unsealed(path, name))
            outcome.add(self.unsealed(path, name))
        for name, path in files.items():
            if is_index(name):
                outcome.add(self.index(path, name, sealed))
        if not outcome.checked and not outcome.findings and not outcome.skipped:
            why = "it holds no manifest and no model file; seal it, or name another one"
            outcome.skipped.append(Skipped(what="the folder's files", why=why))
        return outcome

    def index(self, path: Path, name: str, sealed: Mapping[str, SealedFile]) -> Outcome:
        """Look for the shards that an index lists; those of the manifest are told already."""
        outcome = Outcome()
        shards = shards_of(path)
        if shards is None:
            why = "it is no index that this release reads"
            outcome.skipped.append(Skipped(what=f"{name}: shards", why=why))
            return outcome
        above = name.rpartition("/")[0]
        for shard in shards:
            place = f"{above}/{shard}" if above else shard
            if place not in sealed and not (path.parent / shard).exists():
                outcome.findings.append(_missing(place, listed_by=name))
        outcome.count("shards listed by an index", len(shards))
        return outcome

    def file(self, path: Path) -> Outcome:
        """Verify one file, against the nearest manifest that knows it."""
        if path.name == MANIFEST_NAME and path.exists():
            return self.folder(path.parent)
        outcome = Outcome()
        found = None
        for folder in _folders_above(path):
            manifest, damaged = _load(folder, str(folder))
            if damaged is not None:
                outcome.findings.append(damaged)
                outcome.skipped.append(_no_seals(path.name))
                break
            if manifest is None:
                continue
            name = path.absolute().relative_to(folder.absolute()).as_posix()
            if name in manifest.files:
                found = manifest.files[name]
                break
            if folder == path.parent and path.exists():
                outcome.findings.append(_unsealed(path, path.name))
        if found is not None:
            outcome.add(self.sealed(path, found, path.name))
        else:
            outcome.add(self.unsealed(path, path.name))
        return outcome

    def sealed(self, path: Path, entry: SealedFile, name: str) -> Outcome:
        """Verify a file that a manifest lists."""
        if not path.exists():
            gone = _missing(name, listed_by=MANIFEST_NAME, expected_bytes=entry.size_bytes)
            return Outcome(findings=[gone], checked={"files against their seal": 1})
        with ByteSource(path) as source:
            if self.full:
                return check_sealed(source, entry, name, strong=self.strong, progress=self.progress)
            outcome = check_unsealed(source, name, full=False)
            outcome.skipped = [replace(item, promised=False) for item in outcome.skipped]
            if source.size != entry.size_bytes and not outcome.findings:
                outcome.findings.append(_other_size(source.size, entry, name))
            outcome.count("file sizes against their seal")
            return outcome

    def unsealed(self, path: Path, name: str) -> Outcome:
        """Verify a file by its format alone."""
        with ByteSource(path) as source:
            outcome = check_unsealed(source, name, full=self.full, progress=self.progress)
            if source.changed():
                why = "it changed while it was read; verify again when nothing writes to it"
                return Outcome(skipped=[Skipped(what=name, why=why)], num_bytes=outcome.num_bytes)
        return outcome


def _load(folder: Path, shown: str) -> tuple[Manifest | None, Finding | None]:
    try:
        return load_manifest(folder), None
    except MalformedError as error:
        name = f"{shown}/{MANIFEST_NAME}" if shown and shown != "." else MANIFEST_NAME
        return None, error.damage.finding(name)


def _folders_above(path: Path) -> list[Path]:
    # As given first, so that what is printed is what was typed.
    return [path.parent, *path.absolute().parent.parents]


def _no_seals(what: str) -> Skipped:
    return Skipped(what=f"{what}: comparison with the seal", why="the manifest does not hold")


def _missing(name: str, *, listed_by: str, **evidence: int) -> Finding:
    return rule("FIL103").finding(
        f"{name} is listed by {listed_by} and is not there",
        where=Location(path=name),
        evidence={"listed_by": listed_by, **evidence},
    )


def _unsealed(path: Path, name: str) -> Finding:
    return rule("FIL109").finding(
        f"{name} lies beside sealed files and is not in the manifest",
        where=Location(path=name),
        evidence={"size_bytes": path.stat().st_size},
    )


def _other_size(size: int, entry: SealedFile, name: str) -> Finding:
    cut = size < entry.size_bytes
    return rule("FIL104" if cut else "FIL101").finding(
        f"{name} has {size} bytes, sealed with {entry.size_bytes}",
        where=Location(
            path=name, byte_range=(min(size, entry.size_bytes), max(size, entry.size_bytes))
        ),
        evidence={
            "size_bytes": size,
            "expected_bytes": entry.size_bytes,
            "promised_by": "the manifest",
        },
    )

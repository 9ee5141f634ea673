"""The manifest itself, put right from the parity file or from another copy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from everybit.core.errors import PathError
from everybit.core.finding import Certainty, Location
from everybit.core.rule import rule
from everybit.files.damage import MalformedError
from everybit.files.parity.container import read_index
from everybit.files.parity.record import PARITY_NAME, ParityRecord
from everybit.files.repair.mending import Evidence, Mend, Mending
from everybit.files.seals.manifest import MANIFEST_NAME, Manifest, load_manifest
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.core.finding import Finding

_MAX_HEAD = 128


def find_manifest(
    folder: Path, prefix: str, copies: list[Path]
) -> tuple[Manifest | None, Mending | None]:
    """Return a folder's manifest; where it is damaged or gone, as parity or a copy has it.

    Args:
        folder: The folder.
        prefix: Its path relative to the target, for findings.
        copies: Copies of the folder.

    Returns:
        The manifest, None where nobody has it; and how its file is put back, None where it holds.

    Raises:
        PathError: It cannot be read, or a newer release wrote it.
    """
    name = prefix + MANIFEST_NAME
    path = folder / MANIFEST_NAME
    damage: Finding | None = None
    try:
        manifest = load_manifest(folder)
        if manifest is not None:
            return manifest, None
    except MalformedError as error:
        damage = error.damage.finding(name)
    found = _from_parity(folder) or _from_copies(copies)
    if damage is None and (found is None or found[2] is not Evidence.PARITY):
        # Nothing says that this folder was sealed; a copy's manifest tells all the same.
        return (found[0] if found else None), None
    mending = Mending(path=path, name=name)
    mending.findings = [damage or _gone(name)]
    if found is None:
        mending.why_lost = "neither a parity file nor a copy holds it"
        mending.size_bytes = path.stat().st_size
        return None, mending
    manifest, data, evidence, source = found
    proven = damage is not None and data[:_MAX_HEAD].split(b"\n")[1] in _first_lines(path)
    told = ("its digest is the one in the damaged file's first line",) if proven else ()
    mending.size_bytes = len(data)
    mending.mends = [
        Mend(
            start=0,
            end=len(data),
            evidence=evidence,
            certainty=Certainty.PROOF if proven else Certainty.STRONG,
            fetch=lambda: data,
            source=source,
            witnesses=(*told, "it gives the digest in its own first line"),
        )
    ]
    mending.proves = lambda written: "" if written.read_bytes() == data else "it is not written"
    return manifest, mending


def _first_lines(path: Path) -> list[bytes]:
    with path.open("rb") as file:
        return file.read(_MAX_HEAD).split(b"\n")


def _gone(name: str) -> Finding:
    return rule("FIL103").finding(
        f"{name} is not there", where=Location(path=name), evidence={"listed_by": PARITY_NAME}
    )


def _from_parity(folder: Path) -> tuple[Manifest, bytes, Evidence, str] | None:
    path = folder / PARITY_NAME
    if not path.is_file():
        return None
    try:
        with ByteSource(path) as source:
            index = read_index(source)
            record = ParityRecord(id=index.id, size_bytes=source.size, layout=index.layout)
    except (MalformedError, PathError):
        return None
    manifest = replace(index.manifest, parity=record.encode())
    return manifest, manifest.encode(), Evidence.PARITY, PARITY_NAME


def _from_copies(copies: list[Path]) -> tuple[Manifest, bytes, Evidence, str] | None:
    for folder in copies:
        try:
            manifest = load_manifest(folder) if folder.is_dir() else None
        except (MalformedError, PathError):
            continue
        if manifest is not None:
            place = folder / MANIFEST_NAME
            return manifest, place.read_bytes(), Evidence.COPY, str(place)
    return None

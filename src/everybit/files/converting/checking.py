"""Whether a file may be converted: it is whole, of a format that is taken, and not hostile."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from isal import isal_zlib

from everybit.core.errors import DamagedError, PathError
from everybit.files.aside import new_hasher, read_hashed
from everybit.files.contents import name_of
from everybit.files.damage import MalformedError
from everybit.files.pickles.stream import read_pickle_at
from everybit.files.reading import describe_not_a_model, read_structure
from everybit.files.source import ByteSource
from everybit.files.structure import Structure
from everybit.files.tensor import FileFormat
from everybit.files.zips.integrity import crc_damage, crc_status
from everybit.files.zips.members import member_crc, unreadable
from everybit.files.zips.records import STORED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from everybit.core.finding import Finding

#: A pickle of protocol 0 or 1 begins like text, or like nothing known.
_PERHAPS_PICKLES: Final = frozenset({FileFormat.TEXT, FileFormat.UNKNOWN})
_JOBLIB: Final = b"joblib.numpy_pickle"
_HEAD_BYTES: Final = 64 * 1024
_TAKEN: Final = frozenset(
    {
        FileFormat.TORCH_ZIP,
        FileFormat.TORCH_LEGACY,
        FileFormat.TORCH_TAR,
        FileFormat.PICKLE,
        FileFormat.DISTCP,
    }
)
#: What makes a source hostile, where the finding is an error.
_HOSTILE: Final = frozenset({"PKL201", "PKL203"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file that was read whole.

    Attributes:
        path: Relative to what is converted.
        format: What it is.
        size_bytes: Its size.
        sha256: SHA-256 of it, in hexadecimal.
        identity: Device, inode, size and times of it while it was read.
    """

    path: str
    format: FileFormat
    size_bytes: int
    sha256: str
    identity: tuple[int, ...] = ()


def structure_of(source: ByteSource, where: Path) -> Structure:
    """Return the structure of a file that is taken; of a bare pickle there is little.

    Raises:
        DamagedError: It is damaged, or no model file; names the rule.
        PathError: It is of another format, or too large.
    """
    structure = read_structure(source)
    if structure.format in _PERHAPS_PICKLES and _is_one_pickle(source):
        return Structure(format=FileFormat.PICKLE)
    if structure.format is FileFormat.PICKLE:
        _refuse_other_pickles(source, where)
    if structure.damages:
        raise structure.damages[0].error(where)
    what, todo = describe_not_a_model(structure.format, source)
    if what:
        raise DamagedError(what, rule="FIL118", where=str(where), todo=todo)
    if structure.format is FileFormat.SAFETENSORS:
        raise PathError("is safetensors already", where=str(where), todo="use it as it is")
    if structure.format not in _TAKEN:
        raise PathError(
            f"is {name_of(structure.format)}, not a file that torch or pickle wrote",
            where=str(where),
            todo="name a torch checkpoint",
        )
    if structure.given_up:
        raise PathError(f"is too large for this release: {structure.given_up}", where=str(where))
    return structure


def _is_one_pickle(source: ByteSource) -> bool:
    """Return whether a file is one pickle from its first byte to its last."""
    try:
        return read_pickle_at(source, 0, "its pickle").end == source.size
    except MalformedError:
        return False


def _refuse_other_pickles(source: ByteSource, where: Path) -> None:
    """Refuse what begins as a pickle and has more in it."""
    if _JOBLIB in source.read(0, _HEAD_BYTES):
        raise PathError(
            "is a file of joblib",
            where=str(where),
            todo="load it where it was made, and save its arrays with NumPy or safetensors",
        )
    try:
        end = read_pickle_at(source, 0, "its pickle").end
    except MalformedError as error:
        raise error.damage.error(where) from None
    if end != source.size:
        raise PathError(
            f"holds {source.size - end} bytes after its pickle, and loaders read that alone",
            where=str(where),
            todo="take the pickles apart, and convert each",
        )


def read_whole(
    source: ByteSource, structure: Structure, path: str, progress: Callable[[int], None]
) -> SourceFile:
    """Read a file through, for its digest and for the checksums of its members.

    Raises:
        DamagedError: A member fails its checksum (FIL108).
    """
    members = structure.members if structure.has_checksums else ()
    checked = [m for m in members if m.usable and not unreadable(m)]
    stored = sorted((m for m in checked if m.method == STORED and m.size), key=lambda m: m.start)
    hasher = new_hasher("sha256")
    crcs = dict.fromkeys((m.start for m in stored), 0)
    at = first = 0
    for chunk in read_hashed(source, [hasher]):
        end = at + len(chunk)
        while first < len(stored) and stored[first].end <= at:
            first += 1
        for member in itertools.islice(stored, first, None):
            if member.start >= end:
                break
            piece = chunk[max(0, member.start - at) : max(0, member.end - at)]
            crcs[member.start] = isal_zlib.crc32(piece, crcs[member.start])
        at = end
        progress(len(chunk))
    for member in checked:
        crc = crcs.get(member.start)
        if member.method != STORED or crc is None:
            crc = member_crc(source, member)
        if crc_status(member, crc) is not None:
            raise crc_damage(source, structure, member, crc).error(source.path)
    return SourceFile(
        path=path,
        format=structure.format,
        size_bytes=source.size,
        sha256=hasher.hexdigest(),
        identity=source.identity,
    )


def refuse_changed(file: SourceFile, place: Path) -> None:
    """Refuse a file that is another one by now than the one that was read.

    Raises:
        PathError: It was written to, replaced or taken away.
    """
    with ByteSource(place) as source:
        if source.identity != file.identity:
            raise PathError("changed while it was converted", where=str(place), todo="try again")


def refuse_hostile(source: ByteSource, where: Path, name: str) -> list[Finding]:
    """Return what `scan` says of a file that may be converted.

    Raises:
        DamagedError: It would run code when loaded, or is shaped to mislead; names the rule.
    """
    from everybit.files.scans.scanning import scan_file

    outcome = scan_file(source, name)
    for finding in outcome.findings:
        if finding.rule in _HOSTILE and str(finding.severity) == "error":
            raise DamagedError(
                finding.message.removeprefix(f"{name}: ").removeprefix(name).strip(),
                rule=finding.rule,
                where=str(where),
                todo="nothing was written; `everybit scan` tells all that it would do",
            )
    return [finding for finding in outcome.findings if finding.rule == "PKL202"]

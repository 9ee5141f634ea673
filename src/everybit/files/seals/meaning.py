"""What a small file says, apart from how it was written: for those that every save writes anew.

A DCP folder's `.metadata` holds a fresh id at every save, and a JSON file may be written with its
keys in another order. A seal keeps a digest of what they say, so that such a file is told from a
changed one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NoReturn

from everybit.core.errors import PathError
from everybit.core.finding import Location, Severity
from everybit.core.rule import rule
from everybit.core.tree import tree_digest
from everybit.files.damage import MalformedError
from everybit.files.formats.dcp_metadata import read_metadata
from everybit.files.reading import read_structure
from everybit.files.source import ByteSource
from everybit.files.tensor import FileFormat

if TYPE_CHECKING:
    from everybit.core.digest import Digest
    from everybit.core.finding import Finding
    from everybit.files.seals.localize import Differences
    from everybit.files.seals.manifest import SealedFile
    from everybit.files.structure import Structure

_MAX_JSON_BYTES: Final = 64 * 1024 * 1024
_MAX_SIBLINGS: Final = 100_000


def meaning_of(source: ByteSource, structure: Structure) -> Digest | None:
    """Return a digest of what a file says; None for a kind of file that has none.

    Raises:
        PathError: The file cannot be read.
    """
    if structure.damages:
        return None
    if structure.format is FileFormat.DCP_METADATA:
        said = _of_metadata(source)
    elif structure.format is FileFormat.TEXT and source.path.name.lower().endswith(".json"):
        said = _of_json(source)
    else:
        return None
    return None if said is None else tree_digest("bytes", (len(said),), said)


def says_the_same(
    source: ByteSource,
    sealed: SealedFile,
    structure: Structure,
    differences: Differences,
    name: str,
) -> Finding | None:
    """Return a note for a file written anew that says what the sealed one said; else None.

    Damage that is known to the byte is damage, whatever it leaves of the meaning.
    """
    if sealed.meaning is None or (source.size == sealed.size_bytes and differences.right):
        return None
    if meaning_of(source, structure) != sealed.meaning:
        return None
    if structure.format is FileFormat.DCP_METADATA and not _places_hold(source):
        return None
    return rule("FIL101").finding(
        f"{name} was written anew and says the same",
        where=Location(path=name, byte_range=(0, source.size)),
        evidence={
            "expected": str(sealed.tree),
            "size_bytes": source.size,
            "expected_bytes": sealed.size_bytes,
            "meaning": str(sealed.meaning),
        },
        severity=Severity.NOTE,
        remedy="Seal the file again if it was rewritten on purpose.",
    )


def _of_metadata(source: ByteSource) -> bytes | None:
    """Return which tensors there are and which file holds each chunk, without the places in it."""
    try:
        found = read_metadata(source)
    except MalformedError:
        return None
    tensors = [
        [name, tensor.dtype, tensor.shape, sorted(tensor.chunks)]
        for name, tensor in sorted(found.tensors.items())
    ]
    entries = sorted(
        [entry.name, list(entry.offset or ()), entry.offset is None, entry.path]
        for entry in found.entries
    )
    return json.dumps([tensors, entries, found.version]).encode("ascii")


def _places_hold(source: ByteSource) -> bool:
    """Return whether the files beside a `.metadata` hold entries where it says so."""
    siblings = source.path.parent.glob("*.distcp")
    for sibling, _ in zip(siblings, range(_MAX_SIBLINGS), strict=False):
        try:
            with ByteSource(sibling) as file:
                if read_structure(file).damages:
                    return False
        except PathError:
            return False
    return True


def _of_json(source: ByteSource) -> bytes | None:
    if source.size > _MAX_JSON_BYTES:
        return None
    try:
        document = json.loads(
            source.read(0, source.size), object_pairs_hook=_unique, parse_constant=_refuse
        )
        return json.dumps(document, sort_keys=True, separators=(",", ":")).encode("ascii")
    except (ValueError, TypeError, RecursionError):
        return None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        # Readers differ in which of two values they take.
        raise ValueError("a key twice")
    return found


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)

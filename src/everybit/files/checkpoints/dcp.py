"""A DCP folder: the files that its `.metadata` names, and those that are there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.core.errors import DamagedError, PathError
from everybit.core.finding import Certainty, Location, Severity
from everybit.core.rule import rule
from everybit.files.formats.dcp_metadata import METADATA_NAME, DcpMetadata, read_metadata
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from everybit.core.finding import Finding
    from everybit.files.checkpoints.contents import Shelf

_SUFFIX: Final = ".distcp"
_LISTED: Final = 16


def check_dcp(shelf: Shelf, damaged: set[str], sealed: set[str]) -> tuple[list[Finding], int]:
    """Return the findings about DCP folders, and how many files their `.metadata` name.

    Args:
        shelf: The target's files.
        damaged: Files with findings of their own.
        sealed: Files that a manifest lists; it told of those that are gone.
    """
    folders: dict[str, set[str]] = {}
    for name in shelf.files:
        above, _, short = name.rpartition("/")
        if short == METADATA_NAME or short.endswith(_SUFFIX):
            folders.setdefault(above, set()).add(short)
    found: list[Finding] = []
    num_named = 0
    for above, there in sorted(folders.items()):
        prefix = f"{above}/" if above else ""
        if METADATA_NAME not in there:
            if prefix + METADATA_NAME not in sealed:
                found.append(_without_metadata(prefix, there))
            continue
        metadata = _read(shelf, prefix + METADATA_NAME)
        if metadata is None or prefix + METADATA_NAME in damaged:
            continue  # its own findings tell why; it may be no `.metadata` of DCP at all
        named: dict[str, set[str]] = {}
        for entry in metadata.entries:
            named.setdefault(entry.path, set()).add(entry.name)
        num_named += len(named)
        found += [
            _missing(prefix, path, names)
            for path, names in sorted(named.items())
            if path.endswith(_SUFFIX) and prefix + path not in shelf.files
            if prefix + path not in sealed
        ]
        found += _left_over(prefix, there, named.keys())
    return found, num_named


def _read(shelf: Shelf, name: str) -> DcpMetadata | None:
    try:
        with ByteSource(shelf.files[name]) as source:
            return read_metadata(source)
    except (PathError, DamagedError):
        return None


def _without_metadata(prefix: str, there: set[str]) -> Finding:
    folder = prefix.rstrip("/") or "the folder"
    return rule("FIL103").finding(
        f"{folder} holds {len(there)} {_SUFFIX} files and no {METADATA_NAME}, which is written "
        "last",
        where=Location(path=prefix + METADATA_NAME),
        evidence={"listed_by": "the format", "num_files": len(there)},
        remedy="The save did not end, or the copy left hidden files out: fetch it again, or resume "
        "from a sibling.",
    )


def _missing(prefix: str, path: str, names: set[str]) -> Finding:
    return rule("FIL103").finding(
        f"{prefix}{path} is listed by {prefix}{METADATA_NAME} and is not there; "
        f"{len(names)} tensors have parts in it",
        where=Location(path=prefix + path),
        evidence={
            "listed_by": prefix + METADATA_NAME,
            "num_tensors": len(names),
            "tensors": sorted(names)[:_LISTED],
        },
        remedy=f"Fetch {path} again; the other files need not be fetched for it.",
    )


def _left_over(prefix: str, there: set[str], named: Iterable[str]) -> list[Finding]:
    known = set(named)
    extra = sorted(short for short in there if short.endswith(_SUFFIX) and short not in known)
    if not extra or not known:
        return []
    more = f" and {len(extra) - 1} more" if len(extra) > 1 else ""
    return [
        rule("FIL106").finding(
            f"{prefix}{extra[0]}{more} {'are' if more else 'is'} not listed by "
            f"{prefix}{METADATA_NAME}: left over from another save",
            where=Location(path=prefix + extra[0]),
            evidence={"unlisted": extra[:_LISTED], "num_listed": len(known)},
            severity=Severity.WARNING,
            certainty=Certainty.STRONG,
            remedy=f"Look whether {METADATA_NAME} or these files belong to the step; nothing "
            "loads them as it is.",
        )
    ]

"""Bytes that a `.distcp` file lost or gained in the middle: what follows lies beside its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from everybit.core.finding import Location
from everybit.files.damage import Damage
from everybit.files.formats.dcp_metadata import METADATA_NAME
from everybit.files.zips.records import END, END_MARK, LOCAL_MARK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.files.formats.dcp_metadata import DcpEntry
    from everybit.files.source import ByteSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """Where a file lost or gained bytes.

    Attributes:
        hit: Indices of the entries in which.
        distance: By how much what follows lies behind its place; negative: before it.
        damage: The one damage.
    """

    hit: range
    distance: int
    damage: Damage


def is_archive(source: ByteSource, start: int) -> bool:
    """Return whether an archive begins at an offset."""
    return start >= 0 and source.read(start, 4) == LOCAL_MARK


def find_shift(source: ByteSource, listed: list[DcpEntry]) -> Shift | None:
    """Return which entry lost or gained bytes; None where no single run explains the places.

    Args:
        source: The file.
        listed: Its entries by `.metadata`, in order.
    """
    distance = source.size - max(entry.end for entry in listed)
    if not distance or any(entry.transforms for entry in listed):
        return None
    kept = [is_archive(source, entry.start) for entry in listed]
    there = [is_archive(source, entry.start + distance) for entry in listed]
    first = next((i for i, it in enumerate(kept) if not it), len(listed))
    behind = next((i for i in range(first, len(listed)) if all(there[i:])), len(listed))
    # A file that was cut ends within an entry, and none lies beside its place.
    whole_end = source.read(max(0, source.size - END.size), 4) == END_MARK
    if not 0 < first < len(listed) or behind == len(listed) or not whole_end:
        return None
    if any(kept[first:]) or any(there[first:behind]) or listed[first].start >= source.size:
        return None
    hit = range(first - 1, behind)
    return Shift(hit=hit, distance=distance, damage=_damage(source, listed, hit, distance))


def find_owner(source: ByteSource, entries: Sequence[DcpEntry], path: str) -> str | None:
    """Return the other file of a folder whose entries lie in this one, and not its own.

    Args:
        source: The file.
        entries: All that the folder's `.metadata` lists.
        path: The file's own path in the folder.
    """
    by_path: dict[str, list[DcpEntry]] = {}
    for entry in entries:
        if not entry.transforms:
            by_path.setdefault(entry.path, []).append(entry)
    places = {name: {(e.start, e.end) for e in mine} for name, mine in by_path.items()}
    for name, mine in by_path.items():
        if name == path or places[name] == places.get(path):
            continue
        if source.size == max(entry.end for entry in mine) and all(
            is_archive(source, entry.start) for entry in mine
        ):
            return name
    return None


def misplaced(source: ByteSource, owner: str) -> Damage:
    """Return the damage of a file that holds another one's entries."""
    return Damage(
        rule="FIL106",
        message=f"holds the entries that {METADATA_NAME} places in {owner}, not its own",
        where=Location(byte_range=(0, source.size)),
        evidence={"holds": owner, "listed_by": METADATA_NAME},
    )


def _damage(source: ByteSource, listed: list[DcpEntry], hit: range, distance: int) -> Damage:
    entry, last = listed[hit[0]], listed[hit[-1]]
    names = entry.name if entry is last else f"{entry.name} to {last.name}"
    what = "are missing" if distance < 0 else "too many stand"
    way = "early" if distance < 0 else "late"
    return Damage(
        rule="FIL107",
        message=f"{abs(distance):,} bytes {what} in entry {names}: "
        f"all that follows lies that much too {way}",
        where=Location(
            tensor=entry.name if entry.offset is not None and entry is last else None,
            byte_range=(entry.start, min(source.size, max(entry.start + 1, last.end + distance))),
        ),
        evidence={"shifted_by": distance, "promised_by": METADATA_NAME, "num_entries": len(listed)},
    )

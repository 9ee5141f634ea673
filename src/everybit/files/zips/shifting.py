"""Bytes that an archive lost or gained in the middle: all that follows lies beside its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Location
from everybit.files.damage import Damage
from everybit.files.zips import records as zr

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.files.source import ByteSource

_MAX_NAMES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """One run of bytes that is missing, or too many, and what it moved.

    Attributes:
        damage: The one damage.
        moved: Entries with the place where their member is now, by the place of the entry.
        lost: Places of entries whose member the run lies in.
    """

    damage: Damage
    moved: Mapping[int, zr.CentralEntry]
    lost: frozenset[int]


def find_shift(
    source: ByteSource,
    entries: Sequence[tuple[zr.CentralEntry, int]],
    distance: int,
    directory_start: int,
) -> Shift | None:
    """Return the run that explains where the members are; None where no single one does.

    Args:
        source: The archive.
        entries: Its directory's entries, each with its own place.
        distance: How far behind its promised place the directory lies; negative: before it.
        directory_start: Where it lies.
    """
    if not distance or not entries:
        return None
    order = sorted(entries, key=lambda pair: pair[0].header_offset)
    states = []
    for entry, _ in order:
        at = entry.header_offset
        if _is_header(source, entry, at, directory_start):
            states.append("kept")
        elif _is_header(source, entry, at + distance, directory_start):
            states.append("moved")
        else:
            states.append("gone")
    num_kept = next((i for i, state in enumerate(states) if state != "kept"), len(states))
    # An end record that is damaged itself moves nothing.
    first = states.index("moved") if "moved" in states else len(states)
    if first == len(states) or set(states[num_kept:first]) > {"gone"}:
        return None
    if any(state != "moved" for state in states[first:]):
        return None
    hit = order[max(num_kept - 1, 0) : first]
    start = hit[0][0].header_offset if hit else 0
    end = order[first][0].header_offset + distance
    moved = {place: _moved(entry, distance) for entry, place in order[first:]}
    return Shift(
        damage=_damage(distance, (start, end), [entry.name for entry, _ in hit]),
        moved=moved,
        lost=frozenset(place for _, place in hit),
    )


def _moved(entry: zr.CentralEntry, distance: int) -> zr.CentralEntry:
    made = entry.copy()
    made.header_offset += distance
    return made


def _is_header(source: ByteSource, entry: zr.CentralEntry, at: int, directory_start: int) -> bool:
    if not 0 <= at < directory_start:
        return False
    head = source.read(at, zr.LOCAL.size + len(entry.raw_name))
    return head[:4] == zr.LOCAL_MARK and head[zr.LOCAL.size :] == entry.raw_name


def _damage(distance: int, place: tuple[int, int], names: list[str]) -> Damage:
    start, end = place
    num = f"{abs(distance):,} bytes"
    what = f"{num} are missing" if distance < 0 else f"{num} too many stand"
    way = "early" if distance < 0 else "late"
    where = ""
    if names:
        where = f"in member {names[0]}" + (f" to {names[-1]}" if len(names) > 1 else "") + ", "
    return Damage(
        rule="FIL107",
        message=f"{what} {where}between byte {start:,} and {end:,}: "
        f"all that follows lies that much too {way}",
        where=Location(member=names[0] if names else None, byte_range=(start, max(end, start + 1))),
        evidence={"shifted_by": distance, "members": names[:_MAX_NAMES]},
    )

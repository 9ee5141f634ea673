"""A damaged record of an archive, put right from the other records that say the same.

Every member is described twice, before its data and in the central directory, and where the data
carry a checksum the two must give it. A single flipped bit in one of these records is found by
trying: it is put back where exactly one flip makes the whole archive agree with itself.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Certainty
from everybit.files.damage import MalformedError
from everybit.files.reading import read_structure
from everybit.files.repair.mending import Evidence, Mend
from everybit.files.seals.patched import PatchedSource
from everybit.files.zips import records as zr
from everybit.files.zips.archive import read_archive

if TYPE_CHECKING:
    from collections.abc import Iterable

    from everybit.files.source import ByteSource
    from everybit.files.structure import Structure
    from everybit.files.zips.archive import Member

_MAX_TRIED: Final = 8 * 2048
_MAX_SECONDS: Final = 30.0
_MAX_CANDIDATES: Final = 64
_WINDOW: Final = 1 << 20
_OVERLAP: Final = 1 << 17
_TAIL: Final = zr.END.size + zr.LOCATOR64.size + zr.END64.size


def mend_checksum_record(
    source: ByteSource, member: Member, status: str, computed: int
) -> Mend | None:
    """Return how a damaged CRC field is put right: its data and its other record agree.

    Args:
        source: The file.
        member: The member whose data give one of its two CRCs on record.
        status: `directory` or `descriptor`, which of the two is damaged.
        computed: The CRC-32 of the data.

    Returns:
        None where the field is not found.

    Raises:
        PathError: The file cannot be read.
    """
    if status == "directory":
        entry = _find_entry(source, member)
        at = None if entry is None else entry + 16
    elif member.flags & zr.FLAG_DESCRIPTOR:
        at = member.end + 4 if source.read(member.end, 4) == zr.DESCRIPTOR_MARK else None
    else:
        at = member.header_offset + 14 if _is_local(source, member.header_offset) else None
    if at is None:
        return None
    right = computed.to_bytes(4, "little")
    return Mend(
        start=at,
        end=at + 4,
        evidence=Evidence.RECORDS,
        certainty=Certainty.STRONG,
        fetch=lambda: right,
        num_bytes=sum(a != b for a, b in zip(source.read(at, 4), right, strict=False)),
        witnesses=("the member's data and its other record give the same checksum",),
    )


def _is_local(source: ByteSource, offset: int) -> bool:
    return source.read(offset, 4) == zr.LOCAL_MARK


def _find_entry(source: ByteSource, member: Member) -> int | None:
    """Return where the central entry of a member lies: behind all data, under its name."""
    at = member.end
    while at < source.size:
        window = source.read(at, _WINDOW + _OVERLAP)
        place = window.find(zr.CENTRAL_MARK)
        while 0 <= place < _WINDOW:
            entry = zr.parse_central(window, place)
            if entry is not None and entry.name == member.name and entry.crc == member.crc:
                return at + place
            place = window.find(zr.CENTRAL_MARK, place + 1)
        at += _WINDOW
    return None


def mend_records(source: ByteSource, structure: Structure) -> Mend | None:
    """Return the one flipped bit whose mending makes the archive's records agree.

    Args:
        source: The file.
        structure: What was read of it, with its damages.

    Returns:
        None where no single flip does, where several do, or where the search would take too long.

    Raises:
        PathError: The file cannot be read.
    """
    until = time.monotonic() + _MAX_SECONDS
    candidates: list[tuple[int, int]] = []
    tried: set[int] = set()
    num_tried = 0
    for start, end in _suspects(source, structure):
        for offset in range(max(0, start), min(end, source.size)):
            if offset in tried:
                continue
            tried.add(offset)
            for bit in range(8):
                num_tried += 1
                if num_tried > _MAX_TRIED or time.monotonic() > until:
                    return None
                if _agrees(source, offset, bit):
                    candidates.append((offset, bit))
                    if len(candidates) > _MAX_CANDIDATES:
                        return None
    best = _best(source, candidates)
    if best is None:
        return None
    offset, bit = best
    right = bytes([source.read(offset, 1)[0] ^ 1 << bit])
    return Mend(
        start=offset,
        end=offset + 1,
        evidence=Evidence.RECORDS,
        certainty=Certainty.STRONG,
        fetch=lambda: right,
        num_bytes=1,
        witnesses=(
            f"of {num_tried} bits in damaged records only this one makes all records agree",
        ),
    )


def _suspects(source: ByteSource, structure: Structure) -> Iterable[tuple[int, int]]:
    """Yield the records that the damages point at, then the end records."""
    for damage in structure.damages[:16]:
        if damage.from_pickle:
            continue
        place = damage.where.byte_range
        if place is not None:
            # A place may be told by its first bytes only.
            yield place[0], min(max(place[1], place[0] + zr.CENTRAL.size), place[0] + 512)
        central = damage.evidence.get("central_range")
        if isinstance(central, list) and len(central) == 2:
            yield central[0], central[1]
        member = next((m for m in structure.members if m.name == damage.where.member), None)
        if member is not None:
            yield member.header_offset, member.header_offset + zr.LOCAL.size
            yield member.end, member.end + 24
            entry = _find_entry(source, member)
            if entry is not None:
                yield entry, entry + zr.CENTRAL.size + len(member.name.encode())
    yield source.size - _TAIL, source.size


def _agrees(source: ByteSource, offset: int, bit: int) -> bool:
    held = source.read(offset, 1)
    try:
        archive = read_archive(PatchedSource(source, {offset: held[0] ^ 1 << bit}))
    except MalformedError:
        return False
    return not archive.damages and all(member.usable for member in archive.members)


def _best(source: ByteSource, candidates: list[tuple[int, int]]) -> tuple[int, int] | None:
    """Return the candidate that leaves no damage at all and the most uniform records."""
    rated = []
    for offset, bit in candidates:
        held = source.read(offset, 1)
        patched = PatchedSource(source, {offset: held[0] ^ 1 << bit})
        structure = read_structure(patched)
        num_damages = len(structure.damages)
        kinds = {patched.read(m.header_offset + 4, 10) for m in structure.members}
        differing = sum(member.other_crc is not None for member in structure.members)
        rated.append((num_damages, len(structure.skipped), differing, len(kinds), (offset, bit)))
    rated.sort()
    if not rated or rated[0][0] or (len(rated) > 1 and rated[0][:4] == rated[1][:4]):
        return None
    return rated[0][4]

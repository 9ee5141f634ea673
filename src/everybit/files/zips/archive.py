"""A ZIP archive's directory, read strictly: every record is held against the others.

Loaders read the central directory and believe it. Here a member is taken only where its local
header, its data descriptor and its central entry agree; what disagrees is told with its place.
Reading never raises for damage unless there is no directory at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from everybit.files.damage import Damage, MalformedError
from everybit.files.zips import records as zr
from everybit.files.zips.agreement import (
    check_names,
    check_uniform,
    record_damage,
    without_overlaps,
)
from everybit.files.zips.directory import OF_PLACES, Directory, find_directory

if TYPE_CHECKING:
    from everybit.files.source import ByteSource
    from everybit.files.zips.shifting import Shift

_MAX_MEMBERS: Final = 2_000_000
_MAX_DAMAGES: Final = 1000
_METHODS: Final = (zr.STORED, zr.DEFLATED)
#: A local header with its name and what it is padded by, nearly always; and at most.
_USUAL_HEADER_BYTES: Final = 256
_LONGEST_HEADER_BYTES: Final = zr.LOCAL.size + 2 * 0xFFFF


class Member:
    """One member of an archive.

    Attributes:
        name: Its name.
        method: 0 stored, 8 deflated.
        flags: General purpose flags.
        crc: CRC-32 by the central directory.
        other_crc: CRC-32 by the local header or data descriptor, where that one differs.
        size: Bytes of content.
        compressed_size: Bytes in the file.
        header_offset: Where its local header starts.
        start: Where its data starts.
        end: Where its data ends.
        usable: Whether its place in the file is beyond doubt.
    """

    __slots__ = (
        "compressed_size", "crc", "end", "flags", "header_offset", "method", "name", "other_crc",
        "size", "start", "usable",
    )  # fmt: skip

    def __init__(
        self,
        *,
        name: str,
        method: int,
        flags: int,
        crc: int,
        other_crc: int | None,
        size: int,
        compressed_size: int,
        header_offset: int,
        start: int,
        end: int,
        usable: bool = True,
    ) -> None:
        self.name = name
        self.method = method
        self.flags = flags
        self.crc = crc
        self.other_crc = other_crc
        self.size = size
        self.compressed_size = compressed_size
        self.header_offset = header_offset
        self.start = start
        self.end = end
        self.usable = usable

    def but(self, **changes: Any) -> Member:
        """Return the same member with some attributes changed."""
        return Member(**{name: getattr(self, name) for name in self.__slots__} | changes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Archive:
    """What an archive's directory says, and what in it cannot be right.

    `entries` are those of the directory, each with its own offset in the file.
    """

    members: tuple[Member, ...]
    damages: tuple[Damage, ...]
    directory_start: int
    entries: tuple[tuple[zr.CentralEntry, int], ...] = ()

    @property
    def has_checksums(self) -> bool:
        """Whether members carry CRCs; zero in most of them means saved without.

        One field that is not zero among zeros is damage of that field, not a checksum.
        """
        filled = [member for member in self.members if member.size]
        return not filled or 2 * sum(member.crc != 0 for member in filled) > len(filled)


def read_archive(source: ByteSource) -> Archive:
    """Read the directory of an archive and check every record that it leads to.

    Raises:
        MalformedError: There is no end record (FIL104 where the end is missing, FIL107 where it is
            damaged), or the directory lies outside the file.
    """
    damages: list[Damage] = []
    directory = find_directory(source, damages)
    data = source.read(directory.start, directory.size)
    entries: list[tuple[zr.CentralEntry, int]] = []
    at = 0
    while at < len(data) and len(entries) < _MAX_MEMBERS:
        entry = zr.parse_central(data, at)
        if entry is None:
            place = directory.start + at
            damages.append(
                record_damage("a central directory entry is damaged", (place, place + 4))
            )
            at = data.find(zr.CENTRAL_MARK, at + 1)
            if at < 0:
                break
            continue
        entries.append((entry, directory.start + at))
        at += entry.length
    if len(entries) != directory.num_entries and not damages:
        span = (directory.start, directory.start + directory.size)
        damages.append(
            record_damage(
                f"its end record counts {directory.num_entries} members and its central directory "
                f"lists {len(entries)}",
                span,
            )
        )
    shift = _find_shift(source, entries, directory)
    if shift is not None:
        # What the end records say of places is right for the file as it was.
        damages[:] = [damage for damage in damages if damage.message not in OF_PLACES]
        damages.append(shift.damage)
        entries = [(shift.moved.get(place, entry), place) for entry, place in entries]
    members = [
        _build(entry, start=0, end=0, usable=False)
        if shift is not None and place in shift.lost
        else _member(source, entry, place, directory, damages)
        for entry, place in entries
    ]
    check_uniform(entries, damages)
    members = without_overlaps(members, damages)
    check_names(members, damages)
    return Archive(
        members=tuple(members),
        damages=tuple(damages[:_MAX_DAMAGES]),
        directory_start=directory.start,
        entries=tuple(entries),
    )


def _find_shift(
    source: ByteSource, entries: list[tuple[zr.CentralEntry, int]], directory: Directory
) -> Shift | None:
    distance = directory.start - directory.said_start
    if not distance:
        return None
    from everybit.files.zips.shifting import find_shift

    return find_shift(source, entries, distance, directory.start)


def ends_as_archive(source: ByteSource) -> bool:
    """Return whether the file ends with an end record whose directory lies right before it."""
    try:
        damages: list[Damage] = []
        directory = find_directory(source, damages)
    except MalformedError:
        return False
    return not damages and source.read(directory.start, 4) in (zr.CENTRAL_MARK, zr.END64_MARK, b"")


def _member(
    source: ByteSource,
    entry: zr.CentralEntry,
    place: int,
    directory: Directory,
    damages: list[Damage],
) -> Member:
    name, offset = entry.name, entry.header_offset
    entry_range = (place, place + zr.CENTRAL.size)

    def unusable(message: str, byte_range: tuple[int, int]) -> Member:
        damages.append(record_damage(message, byte_range, name))
        return _build(entry, start=0, end=0, usable=False)

    head = source.read(offset, _USUAL_HEADER_BYTES) if offset < directory.start else b""
    if len(head) < zr.LOCAL.size:
        return unusable(f"member {name} lies outside the file", entry_range)
    local = zr.parse_local(head)
    if local is None and len(head) == _USUAL_HEADER_BYTES and head[:4] == zr.LOCAL_MARK:
        local = zr.parse_local(source.read(offset, _LONGEST_HEADER_BYTES))
    if local is None:
        return unusable(
            f"member {name} has no local header where its entry says", (offset, offset + 4)
        )
    start = offset + local.length
    end = start + entry.compressed_size
    if end > directory.start:
        return unusable(f"member {name} runs into the central directory", entry_range)
    if local.raw_name != entry.raw_name:
        message = f"member {name} has another name in its local header"
        return unusable(message, (offset + zr.LOCAL.size, start))
    if entry.method == zr.STORED and entry.size != entry.compressed_size:
        return unusable(f"member {name} is stored with two different sizes", entry_range)
    said = (local.flags, local.method, local.version_needed, local.modified)
    wanted = (entry.flags, entry.method, entry.version_needed, entry.modified)
    if said != wanted or entry.disk:
        pairs = zip(("flags", "method", "version", "time"), said, wanted, strict=True)
        labels = ", ".join([label for label, here, there in pairs if here != there])
        labels = labels or "disk number"
        damages.append(
            record_damage(
                f"the two headers of member {name} disagree ({labels})",
                (offset, offset + zr.LOCAL.size),
                name,
                central_range=list(entry_range),
            )
        )
    if entry.method not in _METHODS and local.method in _METHODS:
        # The field is damaged, and told above; the other one still reads the data.
        entry = entry.copy()
        entry.method = local.method
    problem = zr.extra_problem(local.extra) if local.extra else None
    if problem is not None:
        at = start - len(local.extra) + problem
        damages.append(
            record_damage(f"the padding before member {name} is damaged", (at, at + 1), name)
        )
    if local.flags & zr.FLAG_DESCRIPTOR and not _is_open(local, entry):
        message = f"the local header of member {name} is damaged (checksum or sizes)"
        damages.append(record_damage(message, (offset + 14, offset + 26), name))
    other_crc = _second_crc(source, entry, local, end, damages)
    return _build(entry, start=start, end=end, usable=True, other_crc=other_crc)


def _is_open(local: zr.LocalHeader, entry: zr.CentralEntry) -> bool:
    """Return whether a header left what follows the data to be said there, or says the same."""
    nothing = (0, 0xFFFFFFFF)
    return (
        local.crc in (0, entry.crc)
        and local.size in (*nothing, entry.size)
        and local.compressed_size in (*nothing, entry.compressed_size)
    )


def _second_crc(
    source: ByteSource,
    entry: zr.CentralEntry,
    local: zr.LocalHeader,
    end: int,
    damages: list[Damage],
) -> int | None:
    """Hold the sizes after or before the data against the entry; return a CRC that differs."""
    if (entry.flags | local.flags) & zr.FLAG_DESCRIPTOR:
        found = zr.parse_descriptor(source.read(end, 24), entry.size, entry.compressed_size)
        if found is None or found[1] != entry.size:
            damages.append(
                record_damage(
                    f"the data descriptor of member {entry.name} is damaged",
                    (end, end + 16),
                    entry.name,
                )
            )
            return None
        crc = found[0]
    else:
        crc = local.crc
        if (local.size, local.compressed_size) != (entry.size, entry.compressed_size):
            damages.append(
                record_damage(
                    f"the two headers of member {entry.name} disagree (sizes)",
                    (entry.header_offset, entry.header_offset + zr.LOCAL.size),
                    entry.name,
                )
            )
    return crc if crc != entry.crc else None


def _build(
    entry: zr.CentralEntry, *, start: int, end: int, usable: bool, other_crc: int | None = None
) -> Member:
    return Member(
        name=entry.name,
        method=entry.method,
        flags=entry.flags,
        crc=entry.crc,
        other_crc=other_crc,
        size=entry.size,
        compressed_size=entry.compressed_size,
        header_offset=entry.header_offset,
        start=start,
        end=end,
        usable=usable,
    )

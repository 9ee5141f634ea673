"""An archive's own checksums, taken in the same pass as the senses of the values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from everybit.core.verdict import Skipped
from everybit.files.damage import Damage, MalformedError
from everybit.files.values.scanning import Scan, scan
from everybit.files.zips.integrity import checksum_records_differ, crc_damage, crc_status
from everybit.files.zips.members import member_crc, unreadable
from everybit.files.zips.records import STORED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from everybit.files.source import ByteSource
    from everybit.files.structure import Structure
    from everybit.files.values.spans import Span
    from everybit.files.zips.archive import Member

_SMALL_BYTES: Final = 1 << 20
_PICKLE: Final = "data.pkl"


@dataclass(slots=True, kw_only=True)
class Checksums:
    """What the members' checksums told.

    Attributes:
        scan: The pass over the file, with the senses of its values.
        damages: By member.
        failed: Members whose content fails its checksum.
        held: Names of members whose content gives its checksum.
        num_checked: Members whose checksum was computed.
        num_bytes: Bytes read.
        skipped: Members that could not be read; `what` is their name.
    """

    scan: Scan
    damages: dict[str, Damage] = field(default_factory=dict)
    failed: list[Member] = field(default_factory=list)
    held: set[str] = field(default_factory=set)
    num_checked: int = 0
    num_bytes: int = 0
    skipped: list[Skipped] = field(default_factory=list)

    @property
    def failed_ranges(self) -> list[tuple[int, int]]:
        """Where the members lie that fail, in the file."""
        return [(member.start, member.end) for member in self.failed]

    @property
    def failed_pickles(self) -> list[str]:
        """Names of the pickle records that fail; what they claim is moot."""
        return [member.name for member in self.failed if member.name.endswith(f"/{_PICKLE}")]


def broken_records(structure: Structure) -> list[tuple[int, int]]:
    """Return where records of an archive lie in the file that cannot be right."""
    if not structure.members:
        return []
    return [
        damage.where.byte_range
        for damage in structure.damages
        if damage.rule == "FIL107" and not damage.from_pickle and damage.where.byte_range
    ]


def check_members(
    source: ByteSource,
    structure: Structure,
    spans: Sequence[Span],
    *,
    full: bool,
    progress: Callable[[int], None],
) -> Checksums:
    """Compute the checksums of an archive's members, and look at the values on the way.

    Args:
        source: The file.
        structure: Its structure; with no checksums only the values are looked at.
        spans: Where its tensors lie.
        full: Check every member; else the small ones.
        progress: Is told the bytes read, as they are.

    Raises:
        PathError: The file cannot be read.
    """
    members = _to_check(structure, full=full) if structure.has_checksums else []
    stored = [m for m in members if m.method == STORED and not unreadable(m)]
    stored.sort(key=lambda member: member.start)
    result = Checksums(
        scan=scan(source, stored, spans, progress, whole=bool(structure.members and spans))
    )
    result.num_bytes = result.scan.num_bytes
    if not structure.has_checksums:
        for member in structure.members:
            if member.crc or member.other_crc:
                result.damages[member.name] = checksum_records_differ(member)
        return result
    if not full:
        for member in structure.members:
            if member.usable and member.size > _SMALL_BYTES and member.other_crc is not None:
                result.damages[member.name] = checksum_records_differ(member)
    known = {id(m): crc for m, crc in zip(stored, result.scan.crcs, strict=True)}
    for member in members:
        problem = unreadable(member)
        if problem:
            result.skipped.append(Skipped(what=member.name, why=problem))
            continue
        result.num_checked += 1
        crc = known.get(id(member))
        if crc is None:
            result.num_bytes += member.compressed_size
            try:
                crc = member_crc(source, member, progress)
            except MalformedError as error:
                result.damages[member.name] = error.damage
                result.failed.append(member)
                continue
        _hold(source, structure, member, crc, result)
    return result


def _to_check(structure: Structure, *, full: bool) -> list[Member]:
    return [m for m in structure.members if m.usable and (full or m.size <= _SMALL_BYTES)]


def _hold(
    source: ByteSource, structure: Structure, member: Member, crc: int, result: Checksums
) -> None:
    status = crc_status(member, crc)
    if status == "content":
        result.failed.append(member)
    else:
        result.held.add(member.name)
    if status is not None:
        result.damages[member.name] = crc_damage(source, structure, member, crc)

"""An archive's records held against each other, once each has been read."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Location
from everybit.files.damage import Damage
from everybit.files.zips import records as zr

if TYPE_CHECKING:
    from everybit.files.zips.archive import Member

#: System and attributes that PyTorch's writer, and NumPy's, give to every member.
_WRITERS: Final = ((0, (0, 0)), (3, (0, 0o600 << 16)))


def record_damage(
    message: str, byte_range: tuple[int, int], member: str | None = None, **evidence: object
) -> Damage:
    """Return the damage of an archive's record at a place of the file."""
    where = Location(member=member, byte_range=byte_range)
    return Damage(rule="FIL107", message=message, where=where, evidence=evidence)


def check_uniform(entries: list[tuple[zr.CentralEntry, int]], damages: list[Damage]) -> None:
    """Hold the fields that say nothing about the data against each other.

    Torch and NumPy write the same into every entry; other writers tell files from folders, and
    texts from the rest.
    """
    ours = any(entry.name.endswith("/data.pkl") for entry, _ in entries) or all(
        entry.name.endswith(".npy") for entry, _ in entries
    )
    if not ours or len(entries) < 2:
        return
    fields = Counter((entry.made_by >> 8, entry.attributes) for entry, _ in entries)
    usual = max(_WRITERS, key=lambda writer: fields[writer])
    if 2 * fields[usual] < len(entries):
        return
    for entry, place in entries:
        odd = (entry.made_by >> 8, entry.attributes) != usual
        if odd or entry.made_by & 0xFF not in zr.VERSIONS:
            message = f"the directory's entry of member {entry.name} departs from the others"
            damages.append(record_damage(message, (place + 4, place + 42), entry.name))


def without_overlaps(members: list[Member], damages: list[Damage]) -> list[Member]:
    """Mark members that begin before the one before them ends as unusable."""
    order = sorted(
        (index for index, member in enumerate(members) if member.usable),
        key=lambda index: members[index].header_offset,
    )
    result = list(members)
    reach, owner = 0, ""
    for index in order:
        member = members[index]
        if member.header_offset < reach:
            damages.append(
                record_damage(
                    f"members {owner} and {member.name} overlap",
                    (member.header_offset, min(reach, member.end)),
                    member.name,
                )
            )
            result[index] = member.but(usable=False)
        if member.end > reach:
            reach, owner = member.end, member.name
    return result


def check_names(members: list[Member], damages: list[Damage]) -> None:
    """Tell of members that loaders cannot tell apart."""
    seen: dict[str, str] = {}
    for member in members:
        # PyTorch looks names up without regard to case.
        key = member.name.casefold()
        if key in seen:
            damages.append(
                record_damage(
                    f"two members are called {member.name}",
                    (member.header_offset, member.end or member.header_offset + 4),
                    member.name,
                    first=seen[key],
                )
            )
        seen.setdefault(key, member.name)

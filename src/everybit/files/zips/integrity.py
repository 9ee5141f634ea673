"""What a format allows to be tested with no manifest: an archive's own checksums."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everybit.core.change import Change, evidence_of
from everybit.core.finding import Certainty, Location, place_elements
from everybit.files import crc32
from everybit.files.changes import changes_in
from everybit.files.damage import Damage
from everybit.files.zips.records import STORED

if TYPE_CHECKING:
    from everybit.files.source import ByteSource
    from everybit.files.structure import Structure
    from everybit.files.tensor import FileTensor
    from everybit.files.zips.archive import Member


def crc_status(member: Member, computed: int) -> str | None:
    """Return None where a member's checksum holds, else what does not.

    `content`: the data give neither checksum. `directory`, `descriptor`: the data give one of the
    two on record, so it is the other that is damaged.
    """
    if computed == member.crc:
        return None if member.other_crc is None else "descriptor"
    return "directory" if computed == member.other_crc else "content"


def checksum_records_differ(member: Member) -> Damage:
    """Return the damage of a member on whose checksum the archive's records disagree."""
    return Damage(
        rule="FIL107",
        message=f"the archive's records disagree on the checksum of member {member.name}",
        where=Location(member=member.name, byte_range=(member.end, member.end + 16)),
    )


def crc_damage(source: ByteSource, structure: Structure, member: Member, computed: int) -> Damage:
    """Return the damage of a member whose checksum does not hold, with the tensors in it.

    A difference that one flipped bit explains names that bit. Larger damage gives such a difference
    by chance with probability bits / 2^32, which the evidence states.
    """
    status = crc_status(member, computed)
    if status != "content":
        place = (member.end, member.end + 16) if status == "descriptor" else None
        return Damage(
            rule="FIL107",
            message=f"the {status}'s checksum of member {member.name} is damaged; "
            "its data give the other one on record",
            where=Location(member=member.name, byte_range=place),
        )
    tensors = [tensor for tensor in structure.tensors if tensor.member == member.name]
    evidence: dict[str, Any] = {
        "expected": f"crc32:{member.crc:08x}",
        "found": f"crc32:{computed:08x}",
    }
    flip = None
    if member.method == STORED:
        flip = crc32.flipped_bit(member.crc ^ computed, member.size)
    if flip is None:
        names = [tensor.name for tensor in tensors]
        if names:
            evidence["tensors"] = names[:16]
        about = f" (tensor {names[0]})" if len(names) == 1 else ""
        return Damage(
            rule="FIL108",
            message=f"member {member.name}{about} fails its checksum",
            where=Location(
                member=member.name,
                tensor=names[0] if len(names) == 1 else None,
                byte_range=(member.start, member.end),
            ),
            evidence=evidence,
        )
    return _flip_damage(source, member, tensors, flip, evidence)


def _flip_damage(
    source: ByteSource,
    member: Member,
    tensors: list[FileTensor],
    flip: tuple[int, int],
    evidence: dict[str, Any],
) -> Damage:
    offset = member.start + flip[0]
    found = source.read(offset, 1)
    right = found[0] ^ (1 << flip[1]) if found else 0
    evidence |= {
        "explained_by": "one flipped bit",
        "certainty_of_place": str(Certainty.STRONG),
        "chance_of_mimicry": 8 * member.size / 2**32,
        "byte": offset,
        "bit": flip[1],
    }
    held: list[tuple[FileTensor, list[Change]]] = []
    for tensor in tensors:
        changes = changes_in(source, tensor, {offset: right})
        if changes:
            held.append((tensor, changes))
    place: dict[str, Any] = {}
    about = ""
    if held:
        tensor, changes = held[0]
        place = {"tensor": tensor.name, **place_elements(change.element for change in changes)}
        evidence |= evidence_of(changes)
        about = f" (tensor {tensor.name}, element {changes[0].element})"
        if len(held) > 1:
            evidence["also"] = [other.name for other, _ in held[1:17]]
    return Damage(
        rule="FIL108",
        message=f"member {member.name}{about} fails its checksum; one flipped bit explains it",
        where=Location(member=member.name, byte_range=(offset, offset + 1), **place),
        evidence=evidence,
    )

"""Archives without a seal: single flipped bits, located by the members' own CRC-32."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.core.finding import Certainty
from everybit.core.verdict import Skipped
from everybit.files import crc32
from everybit.files.checks.unsealed import check_unsealed
from everybit.files.damage import MalformedError
from everybit.files.passes import no_progress
from everybit.files.reading import read_structure
from everybit.files.repair.archives import mend_checksum_record, mend_records
from everybit.files.repair.mending import Evidence, Mend
from everybit.files.repair.neighbours import Neighbours
from everybit.files.repair.witnesses import hear_witnesses
from everybit.files.source import ByteSource
from everybit.files.zips.integrity import crc_damage, crc_status
from everybit.files.zips.members import member_crc, unreadable
from everybit.files.zips.records import STORED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from everybit.files.repair.mending import Mending
    from everybit.files.structure import Structure
    from everybit.files.zips.archive import Member

_MAX_FLIPS = 64
_NO_CHECKSUM = "no checksum and no seal says what its bytes were"


class Failing:
    """Members of an archive whose checksum does not hold.

    Attributes:
        members: `{name: (member, what does not hold, computed CRC)}`.
        num_checked: Members that were read.
        unread: Members that could not be.
    """

    def __init__(self, source: ByteSource, structure: Structure, progress: Callable[[int], None]):
        self.members: dict[str, tuple[Member, str, int]] = {}
        self.unread: list[Skipped] = []
        self.num_checked = 0
        if not structure.has_checksums:
            return
        for member in structure.members:
            problem = unreadable(member) if member.usable else ""
            if problem:
                self.unread.append(Skipped(what=f"member {member.name}", why=problem))
            if problem or not member.usable:
                continue
            try:
                computed = member_crc(source, member, progress)
            except MalformedError:
                self.members[member.name] = (member, "content", -1)
                continue
            self.num_checked += 1
            status = crc_status(member, computed)
            if status is not None:
                self.members[member.name] = (member, status, computed)


def plan_by_checksums(
    source: ByteSource, mending: Mending, *, progress: Callable[[int], None] = no_progress
) -> tuple[Structure, Failing]:
    """Fill in what an archive's own checksums and records allow to be put right.

    Args:
        source: The file.
        mending: Takes the damage, the mends and what is lost.
        progress: Is told the bytes read, as they are.

    Returns:
        The structure and the failing members, for other evidence.

    Raises:
        PathError: It cannot be read.
    """
    structure = read_structure(source)
    failing = Failing(source, structure, progress)
    mending.size_bytes = source.size
    mending.num_bytes += source.size
    mending.skipped += failing.unread
    if failing.num_checked:
        mending.checked["member checksums"] = failing.num_checked
    pickled = any(name.endswith("/data.pkl") for name in failing.members)
    damages = [
        damage
        for damage in structure.damages
        if damage.rule != "FIL108" and not (pickled and damage.from_pickle)
    ]
    mending.findings += [damage.finding(mending.name) for damage in damages]
    neighbours = Neighbours(mending.path)
    for member, status, computed in failing.members.values():
        mending.findings.append(
            crc_damage(source, structure, member, max(computed, 0)).finding(mending.name)
        )
        if status != "content":
            mend = mend_checksum_record(source, member, status, computed)
        else:
            mend = _flip(source, structure, member, computed, failing, neighbours)
        if mend is not None:
            mending.mends.append(mend)
        else:
            span = (member.start, member.end) if status == "content" else None
            mending.lost += [span] if span is not None else []
            mending.why_lost = _why_lost(member, computed)
    if damages:
        mend = mend_records(source, structure) if structure.format.name in _ZIPS else None
        if mend is not None:
            mending.mends.append(mend)
        else:
            mending.why_lost = "no single flipped bit makes its records agree"
    if not structure.format.readable and not structure.damages:
        _tell_other(source, mending)
    elif not structure.members or not structure.has_checksums:
        _tell_unchecked(structure, mending)
    known = frozenset(failing.members)
    mending.proves = _prover(known, len(structure.damages), mending)
    return structure, failing


_ZIPS = frozenset({"ZIP", "TORCH_ZIP", "DISTCP", "NPZ", "UNKNOWN"})


def _why_lost(member: Member, computed: int) -> str:
    if member.method == STORED and len(crc32.flipped_bits(member.crc ^ computed, member.size)) > 1:
        return (
            f"several bits of member {member.name} could each explain its checksum, since it is "
            "so long, and no second witness tells which"
        )
    return f"no single flipped bit explains the checksum of member {member.name}"


def _tell_other(source: ByteSource, mending: Mending) -> None:
    """Tell of what is no model that this release reads, as `verify` does."""
    outcome = check_unsealed(source, mending.name, full=False)
    mending.findings += outcome.findings
    mending.skipped += outcome.skipped
    if outcome.findings:
        mending.why_lost = "nothing in it tells what was there"


def _tell_unchecked(structure: Structure, mending: Mending) -> None:
    if not structure.damages:
        why = f"{_NO_CHECKSUM}; seal it while it is known to be good"
        mending.skipped.append(Skipped(what=f"{mending.name}: its bytes", why=why))


def _flip(
    source: ByteSource,
    structure: Structure,
    member: Member,
    computed: int,
    failing: Failing,
    neighbours: Neighbours,
) -> Mend | None:
    if member.method != STORED or computed < 0:
        return None
    flips = crc32.flipped_bits(member.crc ^ computed, member.size)
    num_failing = sum(status == "content" for _, status, _ in failing.members.values())
    heard = [
        hear_witnesses(
            source, structure, member, flip, num_failing=num_failing, neighbours=neighbours
        )
        for flip in flips[:_MAX_FLIPS]
    ]
    if len(flips) > 1:
        # A member of 512 MiB and more has several such bits: one has to stand out.
        strong = [at for at, told in enumerate(heard) if told.certainty is Certainty.STRONG]
        flips, heard = [flips[at] for at in strong], [heard[at] for at in strong]
    if len(heard) != 1:
        return None
    flip, told = flips[0], heard[0]
    offset = member.start + flip[0]
    right = bytes([source.read(offset, 1)[0] ^ 1 << flip[1]])
    return Mend(
        start=offset,
        end=offset + 1,
        evidence=Evidence.CHECKSUM,
        certainty=told.certainty,
        fetch=lambda: right,
        num_bytes=1,
        witnesses=tuple(told.witnesses),
        against=tuple(told.against),
        chance=told.chance,
    )


def _prover(known: frozenset[str], num_damages: int, mending: Mending) -> Callable[[Path], str]:
    """Return the test of a written archive: what was put right holds, and nothing else broke."""

    def prove(path: Path) -> str:
        with ByteSource(path) as source:
            structure = read_structure(source)
            failing = Failing(source, structure, no_progress)
            mended = [(mend.start, mend.end) for mend in mending.mends]
            for name, (member, _, _) in failing.members.items():
                here = any(member.start <= start and end <= member.end for start, end in mended)
                if here or name not in known:
                    return f"member {name} of what was written fails its checksum"
            if len(structure.damages) > num_damages:
                return f"what was written does not hold: {structure.damages[0].message}"
            if mending.whole and structure.damages:
                return f"what was written does not hold: {structure.damages[0].message}"
        return ""

    return prove


def drop_weak(mending: Mending) -> None:
    """Take back the mends that no second witness supports; what they would mend is lost."""
    weak = [mend for mend in mending.mends if mend.certainty is Certainty.WEAK]
    if not weak:
        return
    mending.mends = [mend for mend in mending.mends if mend.certainty is not Certainty.WEAK]
    mending.lost += [(mend.start, mend.end) for mend in weak]
    against = next((mend.against[0] for mend in weak if mend.against), "")
    mending.why_lost = (
        "one flipped bit explains its checksum, but so may larger damage "
        f"(1 in {max(1, round(1 / max(weak[0].chance or 1e-9, 1e-9))):,}) and "
        + (f"this speaks against it: {against}" if against else "no second witness speaks for it")
        + "; give --accept-weak if you are sure"
    )

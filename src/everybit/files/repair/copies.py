"""Files without a seal, and other copies of them: what the copies can and cannot tell."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from everybit.core.errors import PathError
from everybit.core.finding import Certainty, Location
from everybit.core.rule import rule
from everybit.core.tree import LEAF_BYTES
from everybit.core.verdict import Skipped
from everybit.files.passes import no_progress
from everybit.files.reading import read_structure
from everybit.files.repair.checksums import Failing
from everybit.files.repair.mending import Evidence, Mend
from everybit.files.seals.localize import join_ranges
from everybit.files.source import ByteSource
from everybit.files.zips.members import member_crc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from everybit.core.finding import Finding
    from everybit.files.repair.mending import Mending
    from everybit.files.structure import Structure
    from everybit.files.zips.archive import Member

_MAX_LISTED: Final = 64


def plan_by_copies(
    source: ByteSource,
    mending: Mending,
    structure: Structure,
    failing: Failing,
    copies: list[Path],
) -> None:
    """Add what other copies of an unsealed file prove.

    A member's checksum proves a copy of the member. A copy that is whole by its own format puts
    right a file that is not, where the two are otherwise the same. Where the format has no
    checksum and two copies differ, nothing tells which is right; of three, two that agree.

    Args:
        source: The file.
        mending: What its own checksums came to; is added to.
        structure: Its structure.
        failing: Its failing members.
        copies: Files that may hold the same.

    Raises:
        PathError: The file cannot be read.
    """
    readable = [path for path in copies if _is_readable(path, source, mending)]
    if not readable:
        return
    for path in readable:
        with ByteSource(path) as copy:
            theirs = read_structure(copy)
            for member, status, _ in failing.members.values():
                if status == "content" and not _is_mended(mending, member):
                    _take_member(source, mending, member, copy, theirs)
    unread = not structure.format.readable
    if unread or (mending.findings and not mending.whole):
        for path in readable:
            if _take_file(source, structure, mending, path):
                if unread and not mending.findings:
                    mending.findings.append(_unread(mending, path))
                mending.skipped = [item for item in mending.skipped if not item.promised]
                return
    if not unread and not mending.findings and not (structure.has_checksums and structure.members):
        _compare(source, mending, readable)


def _is_readable(path: Path, source: ByteSource, mending: Mending) -> bool:
    try:
        with ByteSource(path):
            pass
        if path.samefile(source.path):
            mending.skipped.append(Skipped(what=f"copy {path}", why="it is the file itself"))
            return False
    except (PathError, OSError) as error:
        what = error.what if isinstance(error, PathError) else str(error)
        mending.skipped.append(Skipped(what=f"copy {path}", why=what, promised=False))
        return False
    return True


def _is_mended(mending: Mending, member: Member) -> bool:
    return any(
        member.start <= mend.start and mend.end <= member.end
        for mend in mending.mends
        if mend.certainty is not Certainty.WEAK
    )


def _take_member(
    source: ByteSource, mending: Mending, member: Member, copy: ByteSource, theirs: Structure
) -> None:
    for other in theirs.members:
        same = (other.name, other.size, other.crc, other.compressed_size, other.method) == (
            member.name, member.size, member.crc, member.compressed_size, member.method,
        )  # fmt: skip
        if not same or not other.usable or member_crc(copy, other) != member.crc:
            continue
        span = (member.start, member.end)
        mending.mends = [m for m in mending.mends if not (span[0] <= m.start and m.end <= span[1])]
        mending.lost = [lost for lost in mending.lost if lost != span]
        mending.mends += _pieces(
            source, member.start, member.end, copy, other.start,
            witnesses=("the copy gives the checksum that both files have on record",),
        )  # fmt: skip
        if not mending.lost:
            mending.why_lost = ""
        return


def _pieces(
    source: ByteSource,
    start: int,
    end: int,
    copy: ByteSource,
    copy_start: int,
    *,
    witnesses: tuple[str, ...],
) -> Iterator[Mend]:
    """Yield a mend for each leaf of a range in which the copy differs."""
    for at in range(start, end, LEAF_BYTES):
        length = min(LEAF_BYTES, end - at)
        offset = copy_start + at - start
        data = copy.read(offset, length)
        there = source.read(at, length)
        if data != there:
            yield Mend(
                start=at,
                end=at + length,
                evidence=Evidence.COPY,
                certainty=Certainty.STRONG,
                fetch=_reader(copy.path, offset, length),
                num_bytes=_num_differing(data, there),
                source=str(copy.path),
                witnesses=witnesses,
            )


def _num_differing(one: bytes, other: bytes) -> int:
    import numpy as np

    common = min(len(one), len(other))
    differs = np.frombuffer(one, np.uint8, common) != np.frombuffer(other, np.uint8, common)
    return int(differs.sum()) + abs(len(one) - len(other))


def _reader(path: Path, start: int, length: int) -> Callable[[], bytes]:
    def read() -> bytes:
        with ByteSource(path) as source:
            return source.read(start, length)

    return read


def _take_file(source: ByteSource, structure: Structure, mending: Mending, path: Path) -> bool:
    """Take everything from a copy that is whole by its own format and otherwise the same."""
    with ByteSource(path) as copy:
        theirs = read_structure(copy)
        if theirs.damages or not (theirs.tensors or theirs.members):
            return False
        if Failing(copy, theirs, no_progress).members:
            return False
        pieces = list(_pieces(source, 0, copy.size, copy, 0, witnesses=()))
        num_leaves = -(-min(copy.size, source.size) // LEAF_BYTES)
        differing = sum(piece.start < source.size for piece in pieces)
        # Where bytes are missing all that follows differs; the directory still tells one save.
        listed = _directory(structure)
        alike = listed is not None and theirs.has_checksums and listed == _directory(theirs)
        if num_leaves and differing > max(1, num_leaves // 2) and not alike:
            return False
        kind = "checksums" if theirs.has_checksums and theirs.members else "structure"
        told = (
            f"the copy is whole by its own {kind}",
            f"{num_leaves - differing} of {num_leaves} leaves of 64 KiB are the same in both",
        )
        mending.mends = [replace(piece, witnesses=told) for piece in pieces]
        mending.lost = []
        mending.why_lost = ""
        mending.size_bytes = copy.size
    return True


def _directory(structure: Structure) -> set[tuple[str, int, int]] | None:
    """Return names, sizes and checksums of all members; None where there are none."""
    return {(m.name, m.size, m.crc) for m in structure.members} or None


def _compare(source: ByteSource, mending: Mending, copies: list[Path]) -> None:
    """Compare an unsealed file with its copies, leaf by leaf; two of three that agree decide."""
    opened = [ByteSource(path) for path in copies]
    try:
        sizes = Counter([source.size, *(copy.size for copy in opened)])
        size, votes = sizes.most_common(1)[0]
        if len(sizes) > 1 and (votes < 2 or size != source.size):
            _tell_undecided(mending, f"their sizes differ: {sorted(sizes)}")
            return
        same = [copy for copy in opened if copy.size == source.size]
        wrong: list[tuple[int, int]] = []
        undecided: list[tuple[int, int]] = []
        for at in range(0, source.size, LEAF_BYTES):
            length = min(LEAF_BYTES, source.size - at)
            there = source.read(at, length)
            held = [copy.read(at, length) for copy in same]
            if all(data == there for data in held):
                continue
            data, votes = Counter([there, *held]).most_common(1)[0]
            if votes < 2:
                undecided.append((at, at + length))
            elif data != there:
                wrong.append((at, at + length))
                owner = same[held.index(data)]
                mending.mends.append(
                    Mend(
                        start=at,
                        end=at + length,
                        evidence=Evidence.MAJORITY,
                        certainty=Certainty.STRONG,
                        fetch=_reader(owner.path, at, length),
                        num_bytes=_num_differing(data, there),
                        source=str(owner.path),
                        witnesses=(f"{votes} of {len(held) + 1} copies agree",),
                    )
                )
    finally:
        for copy in opened:
            copy.close()
    mending.checked["files against their copies"] = 1
    if wrong:
        mending.findings.append(_outvoted(mending, wrong, len(same)))
    if undecided:
        first = join_ranges(undecided)[0]
        _tell_undecided(
            mending, f"they differ in {len(undecided)} leaves of 64 KiB, from byte {first[0]} on"
        )
    else:
        told = "it has no seal and no checksum; its copies hold the same bytes"
        mending.skipped = [
            replace(item, why=told, promised=False) if item.what.endswith("its bytes") else item
            for item in mending.skipped
        ]


def _unread(mending: Mending, path: Path) -> Finding:
    return rule("FIL107").finding(
        f"{mending.name} is of no format that can be read, and its copy {path} is whole",
        where=Location(path=mending.name),
        certainty=Certainty.STRONG,
    )


def _outvoted(mending: Mending, wrong: list[tuple[int, int]], num_copies: int) -> Finding:
    spans = tuple(join_ranges(wrong)[:_MAX_LISTED])
    place = {"byte_range": spans[0]} if len(spans) == 1 else {"byte_ranges": spans}
    return rule("FIL101").finding(
        f"{mending.name} differs from {num_copies} copies that agree with each other",
        where=Location(path=mending.name, **place),
        evidence={"num_leaves": len(wrong), "resolution_bytes": LEAF_BYTES},
        certainty=Certainty.STRONG,
    )


def _tell_undecided(mending: Mending, how: str) -> None:
    why = (
        f"{how}, and no checksum or seal tells which is right; "
        "give a third copy (--from twice), or a copy with its manifest"
    )
    mending.skipped = [item for item in mending.skipped if not item.what.endswith("its bytes")]
    mending.skipped.append(Skipped(what=f"{mending.name}: which of the copies is right", why=why))

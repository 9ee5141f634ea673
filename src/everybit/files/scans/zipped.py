"""ZIP archives: every member that any reader could come to, and what torch itself would read."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Severity
from everybit.files.damage import MalformedError
from everybit.files.pickles.stream import read_pickles
from everybit.files.scans.content import Content, Kind
from everybit.files.scans.kinds import HEAD_BYTES
from everybit.files.scans.streams import WHOLE_BYTES
from everybit.files.scans.zip_gaps import count_ends, find_gaps
from everybit.files.scans.zip_records import (
    Entry,
    read_entries,
    tell_damages,
    tell_entries,
)
from everybit.files.window import Window
from everybit.files.zips import records as zr
from everybit.files.zips.archive import Archive, Member, ends_as_archive, read_archive

if TYPE_CHECKING:
    from everybit.files.scans.torch_archive import Layout
    from everybit.files.scans.walk import Walk
    from everybit.files.source import ByteSource

_MAX_ARCHIVES: Final = 100_000
_PEEK_BYTES: Final = 1024 * 1024
#: Small records of a torch archive, which are numbers or words.
_WORDS: Final = ("/version", "/byteorder", "/.format_version", "/.storage_alignment",
                 "/.data/serialization_id")  # fmt: skip
_MAX_WORD_BYTES: Final = 64
_METHODS: Final = {12: Kind.BZIP2, 93: Kind.ZSTD}


class Place:
    """Where a member's bytes lie, whether or not the archive's records agree on it."""

    __slots__ = ("end", "member", "start")

    def __init__(self, member: Member, start: int, end: int) -> None:
        self.member = member
        self.start = start
        self.end = end


def look_into_zip(content: Content, walk: Walk) -> None:
    """Look into an archive, or into several end to end, as DCP writes them."""
    for start, end in _archives(content, walk):
        whole = start == 0 and end == content.source.size
        part = content if whole else _part(content, start, end)
        _look_into_one(part, walk)


def _archives(content: Content, walk: Walk) -> list[tuple[int, int]]:
    source = content.source
    one = [(0, source.size)]
    if source.read(0, 4) != zr.LOCAL_MARK or ends_as_archive(source):
        return one
    from everybit.files.zips.runs import find_archives

    (_, end), *_ = find_archives(source, most=1) or one
    if end >= source.size or source.read(end, 4) != zr.LOCAL_MARK:
        return one
    if not content.name.endswith(".distcp"):
        walk.warn(
            content,
            "holds several archives end to end, of which each reader takes another one",
            trick="several archives",
        )
    return find_archives(source, most=_MAX_ARCHIVES)


def _part(content: Content, start: int, end: int) -> Content:
    return content.but(
        source=Window(content.source, start, end),
        start=None if content.start is None else content.start + start,
        member=content.inside(f"archive at {start}"),
    )


def _look_into_one(content: Content, walk: Walk) -> None:
    walk.outcome.count("archives")
    source = content.source
    try:
        archive = read_archive(source)
    except MalformedError as error:
        if count_ends(source) > 1:
            walk.tell(
                content,
                "has several end records, of which each reader may take another one",
                trick="end records that disagree",
                records=[error.damage.message],
            )
        else:
            walk.damaged(content, error.damage)
        _look_into_remains(content, walk, [])
        return
    if content.depth == 0 and content.member is None:
        walk.seen.archive = archive
    entries = read_entries(source, archive)
    tell_damages(content, walk, archive, entries)
    tell_entries(content, walk, entries)
    places = [_place(source, member) for member in archive.members]
    known = [place for place in places if place is not None]
    from everybit.files.scans.torch_archive import Layout

    layout = Layout.of(archive.members)
    layout.has_checksums = archive.has_checksums
    for place in known:
        _look_into_member(content, walk, place, layout)
    _tell_gaps(content, walk, archive, entries, known)
    layout.tell(content, walk)


def _place(source: ByteSource, member: Member) -> Place | None:
    """Return where a member lies as torch's reader finds it: by the entry, past its own header."""
    if member.usable:
        return Place(member, member.start, member.end)
    head = source.read(member.header_offset, zr.LOCAL.size)
    if len(head) < zr.LOCAL.size or head[:4] != zr.LOCAL_MARK:
        return None
    names = int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
    start = member.header_offset + zr.LOCAL.size + names
    end = min(start + member.compressed_size, source.size)
    return Place(member, start, end)


def _look_into_member(content: Content, walk: Walk, place: Place, layout: Layout) -> None:
    member = place.member
    if not member.compressed_size and not member.size:
        return
    if layout.is_raw(member.name) and _is_numbers(content.source, place):
        walk.outcome.count("members")
        walk.members_left -= 1
        return
    if content.depth == 0 and layout.root and _is_word(content.source, place):
        walk.outcome.count("members")
        walk.members_left -= 1
        return
    child = Content(
        source=Window(content.source, place.start, place.end),
        path=content.path,
        member=content.inside(member.name),
        start=None if content.start is None else content.start + place.start,
        depth=content.depth + 1,
        by_law=layout.is_pickle(member.name),
        compiled=layout.compiled,
        partial=content.partial,
    )
    if member.method == zr.STORED:
        if child.by_law and layout.has_checksums:
            _tell_checksum(walk, child, member)
        layout.note(member.name, child)
        walk.look(child, walk)
        return
    from everybit.files.scans.zip_compressed import look_into_compressed

    look_into_compressed(walk, member, child, layout)


def _is_word(source: ByteSource, place: Place) -> bool:
    """Return whether a member is one of torch's small records: a number or the name of an order.

    They are no pickle and of no other format, whatever name they have.
    """
    member = place.member
    if member.method != zr.STORED or place.end - place.start > _MAX_WORD_BYTES:
        return False
    if not member.name.endswith(_WORDS):
        return False
    data = source.read(place.start, place.end - place.start).removesuffix(b"\n")
    return data.isdigit() or data in (b"little", b"big")


def _tell_checksum(walk: Walk, child: Content, member: Member) -> None:
    """Tell of a pickle that fails its checksum: Python's `zipfile` refuses it, torch does not."""
    if child.source.size > WHOLE_BYTES:
        return
    found = zlib.crc32(child.source.read(0, child.source.size))
    if found != member.crc:
        walk.warn(
            child,
            "fails its checksum: Python's zipfile, and what scans with it, stops there; torch "
            "reads it",
            trick="checksum",
            expected=f"crc32:{member.crc:08x}",
            found=f"crc32:{found:08x}",
            remedy="Do not load it. `everybit verify` tells whether it is damage.",
        )


def _is_numbers(source: ByteSource, place: Place) -> bool:
    """Return whether a storage, which torch reads as plain numbers, is nothing else.

    Another tool may take the member for a pickle or an archive where it begins as one.
    """
    if place.member.method != zr.STORED:
        return False
    size = place.end - place.start
    first = source.read(place.start, min(4, size))
    if first[:1] == b"\x80" and first[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        found = read_pickles(source.read(place.start, min(size, _PEEK_BYTES))).pickles[0]
        return not (found.globals and (found.error is None or found.calls))
    if first[:1] in (b"c", b"i", b"("):
        return not _is_old_pickle(source.read(place.start, min(size, HEAD_BYTES)))
    return first != zr.LOCAL_MARK


def _is_old_pickle(head: bytes) -> bool:
    from everybit.files.scans.pickle_start import begins_pickle

    return begins_pickle(head) and any(mark in head for mark in (b"\nR", b"tR", b"(", b"\x85R"))


def _tell_gaps(
    content: Content, walk: Walk, archive: Archive, entries: list[Entry], known: list[Place]
) -> None:
    """Tell of bytes that no record of the archive covers, and look into them."""
    spans = [
        (p.member.header_offset, p.end, bool(p.member.flags & zr.FLAG_DESCRIPTOR)) for p in known
    ]
    last = entries[-1] if entries else None
    end = archive.directory_start if last is None else last.place + last.entry.length
    for gap in find_gaps(content.source, spans, archive.directory_start, end):
        walk.tell(
            content,
            f"holds {gap.end - gap.start:,} bytes {gap.where}, which no record of it covers",
            where=content.place(gap.start, gap.end),
            severity=Severity.ERROR if gap.hides_member else Severity.WARNING,
            trick=gap.trick,
        )
        if gap.start or gap.hides_member:  # other starts are looked into as what they are
            _look_into_remains(content, walk, [(gap.start, gap.end)])


def _look_into_remains(content: Content, walk: Walk, spans: list[tuple[int, int]]) -> None:
    """Look into what lies outside the directory, by the headers that stand there themselves."""
    from everybit.files.scans.zip_gaps import find_hidden

    source = content.source
    for start, end in spans or [(0, source.size)]:
        hidden = find_hidden(source, start, end)
        if not hidden and spans:
            walk.look(_remainder(content, start, end), walk)
        for each in hidden:
            child = _remainder(content, each.start, each.end).but(
                member=content.inside(f"{each.name} (not in its directory)"),
            )
            if each.method == zr.STORED:
                walk.look(child, walk)
            else:
                from everybit.files.scans.zip_compressed import look_into_hidden

                look_into_hidden(walk, child)


def _remainder(content: Content, start: int, end: int) -> Content:
    return Content(
        source=Window(content.source, start, end),
        path=content.path,
        member=content.inside(f"bytes at {start}"),
        start=None if content.start is None else content.start + start,
        depth=content.depth + 1,
    )

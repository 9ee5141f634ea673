"""Bytes of an archive that none of its records covers, and members that its directory omits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.files.zips import records as zr

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from everybit.files.source import ByteSource

#: Lengths of the record behind data whose size was not known before: with and without its mark.
_DESCRIPTORS: Final = (12, 16, 20, 24)
_PIECE_BYTES: Final = 1024 * 1024
_MAX_SEARCHED_BYTES: Final = 256 * 1024 * 1024
_MAX_HIDDEN: Final = 1000
_MAX_GAPS: Final = 100
_ENDS: Final = (zr.LOCAL_MARK, zr.CENTRAL_MARK, zr.DESCRIPTOR_MARK, zr.END_MARK)


class Gap:
    """A run of bytes between records.

    Attributes:
        start: Its first byte.
        end: Its last byte, excluded.
        where: Words for where it is.
        trick: Words for what it may be for.
        hides_member: A member's header stands in it.
    """

    __slots__ = ("end", "hides_member", "start", "trick", "where")

    def __init__(self, start: int, end: int, where: str, trick: str, hides_member: bool) -> None:
        self.start = start
        self.end = end
        self.where = where
        self.trick = trick
        self.hides_member = hides_member


class Hidden:
    """A member that stands in the file and not in the directory: its name and where its data is."""

    __slots__ = ("end", "method", "name", "start")

    def __init__(self, name: str, start: int, end: int, method: int) -> None:
        self.name = name
        self.start = start
        self.end = end
        self.method = method


def find_gaps(
    source: ByteSource, spans: Sequence[tuple[int, int, bool]], directory_start: int, end: int
) -> list[Gap]:
    """Return the gaps between an archive's records; runs of zeros are none.

    Args:
        source: The archive.
        spans: `(start of header, end of data, whether a descriptor follows)` of every member.
        directory_start: Where the central directory begins.
        end: Where it ends.
    """
    gaps: list[Gap] = []
    reach, descriptor = 0, False
    for start, stop, follows in [*sorted(spans), (directory_start, directory_start, False)]:
        if start > reach and not (descriptor and start - reach in _DESCRIPTORS):
            begin = reach + (_descriptor_length(source, reach) if descriptor else 0)
            where = "before its first member" if reach == 0 else f"behind byte {reach:,}"
            trick = "bytes before its start" if reach == 0 else "bytes between members"
            _add(source, gaps, begin, start, where, trick)
        if stop >= reach:
            reach, descriptor = stop, follows
        if len(gaps) >= _MAX_GAPS:
            return gaps
    comment = _comment(source, end)
    if comment is not None:
        _add(source, gaps, *comment, "in the comment at its end", "bytes in its comment")
    return gaps


def _add(source: ByteSource, gaps: list[Gap], start: int, end: int, where: str, trick: str) -> None:
    end = min(end, source.size)
    if start >= end or not any(chunk.tobytes().strip(b"\0") for chunk in source.chunks(start, end)):
        return
    if trick == "bytes in its comment" and zr.END_MARK not in source.read(start, end - start):
        return  # a comment that is one
    hides = next(_find(source, zr.LOCAL_MARK, start, end), None) is not None
    gaps.append(Gap(start=start, end=end, where=where, trick=trick, hides_member=hides))


def _descriptor_length(source: ByteSource, at: int) -> int:
    head = source.read(at, 28)
    if head[:4] != zr.DESCRIPTOR_MARK:
        return 12
    return 24 if head[24:28] in _ENDS else 16


def _comment(source: ByteSource, directory_end: int) -> tuple[int, int] | None:
    """Return where the comment of the first end record behind the directory lies."""
    tail = source.read(directory_end, 65535 + 256)
    at = tail.find(zr.END_MARK)
    if at < 0 or at + zr.END.size >= len(tail):
        return None
    return directory_end + at + zr.END.size, directory_end + len(tail)


def count_ends(source: ByteSource) -> int:
    """Return how many end records stand where readers look for the one."""
    start = max(0, source.size - 65535 - 2 * zr.END.size)
    return source.read(start, source.size - start).count(zr.END_MARK)


def _find(source: ByteSource, mark: bytes, start: int, end: int) -> Iterator[int]:
    at = start
    end = min(end, start + _MAX_SEARCHED_BYTES)
    while at < end:
        data = source.read(at, min(_PIECE_BYTES + len(mark) - 1, end - at))
        place = data.find(mark)
        while place >= 0:
            yield at + place
            place = data.find(mark, place + 1)
        at += _PIECE_BYTES


def find_hidden(source: ByteSource, start: int, end: int) -> list[Hidden]:
    """Return the members whose headers stand in a run of bytes, as a reader from the front sees."""
    found: list[Hidden] = []
    reach = start
    for at in _find(source, zr.LOCAL_MARK, start, end):
        if at < reach or len(found) >= _MAX_HIDDEN:
            continue
        head = source.read(at, zr.LOCAL.size)
        if len(head) < zr.LOCAL.size:
            continue
        extra = int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
        local = zr.parse_local(head + source.read(at + zr.LOCAL.size, extra))
        if local is None:
            continue
        begin = at + local.length
        stop = begin + local.compressed_size
        unknown = not local.compressed_size or local.compressed_size >= 0xFFFFFFFF
        if (unknown and local.flags & zr.FLAG_DESCRIPTOR) or stop > source.size:
            stop = _next_record(source, begin, end)
        found.append(
            Hidden(
                name=zr.decode_name(local.raw_name, local.flags),
                start=begin,
                end=min(stop, source.size),
                method=local.method,
            )
        )
        reach = stop
    return found


def _next_record(source: ByteSource, start: int, end: int) -> int:
    """Return where the next record begins that can follow data whose size is not known."""
    places = [next(_find(source, mark, start, end), None) for mark in _ENDS]
    return min((place for place in places if place is not None), default=end)

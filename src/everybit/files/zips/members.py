"""The content of an archive member, in bounded pieces."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Location
from everybit.files.damage import Damage, MalformedError
from everybit.files.source import CHUNK_BYTES
from everybit.files.zips.records import DEFLATED, FLAG_ENCRYPTED, STORED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from everybit.files.source import ByteSource
    from everybit.files.zips.archive import Member

#: Weights compress by a few parts in ten, text by ten times; what promises more is made to fill a
#: disk.
MAX_RATIO: Final = 200


def unreadable(member: Member) -> str:
    """Return why this release does not read a member's content, or ""."""
    if member.flags & FLAG_ENCRYPTED:
        return "it is encrypted"
    if member.method not in (STORED, DEFLATED):
        return f"it is compressed by method {member.method}"
    if member.size > MAX_RATIO * member.compressed_size + CHUNK_BYTES:
        return f"it promises to grow more than {MAX_RATIO} times"
    return ""


def member_chunks(source: ByteSource, member: Member) -> Iterator[Any]:
    """Yield a usable member's content in short-lived buffers.

    Raises:
        MalformedError: Its compressed stream is damaged, or the member is not readable (FIL107).
    """
    problem = unreadable(member)
    if problem:
        raise _malformed(member, problem)
    if member.method == STORED:
        yield from source.chunks(member.start, member.end)
        return
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    left = member.size
    try:
        for chunk in source.chunks(member.start, member.end):
            pending: Any = chunk
            while pending and not stream.eof:
                piece = stream.decompress(pending, CHUNK_BYTES)
                left -= len(piece)
                if left < 0:
                    raise _malformed(member, "it holds more than it promises")
                yield piece
                pending = stream.unconsumed_tail
        piece = stream.flush()
    except zlib.error:
        raise _malformed(member, "its compressed stream is damaged") from None
    if left - len(piece) or not stream.eof:
        raise _malformed(member, "it holds another number of bytes than it promises")
    yield piece


def read_member(source: ByteSource, member: Member, limit: int) -> bytes:
    """Return a usable member's whole content.

    Raises:
        MalformedError: It is longer than `limit`, or damaged.
    """
    if member.size > limit:
        raise _malformed(member, f"it has {member.size} bytes")
    if member.method == STORED and member.size <= CHUNK_BYTES and not unreadable(member):
        return source.read(member.start, member.end - member.start)
    return b"".join(bytes(chunk) for chunk in member_chunks(source, member))


def _malformed(member: Member, problem: str) -> MalformedError:
    where = Location(member=member.name, byte_range=(member.start, member.end))
    return MalformedError(
        Damage(rule="FIL107", message=f"member {member.name}: {problem}", where=where)
    )


def member_crc(
    source: ByteSource, member: Member, progress: Callable[[int], None] = lambda _: None
) -> int:
    """Return the CRC-32 of a usable member's content.

    Raises:
        MalformedError: Its compressed stream is damaged.
    """
    # Imported here: who only reads small members does not pay for threads and fast checksums.
    from isal import isal_zlib

    from everybit.files import crc32
    from everybit.files.blocks import in_blocks

    crc = 0
    if member.method == STORED and not unreadable(member):
        for part, length in in_blocks(source, member.start, member.end, _crc_of):
            crc = crc32.join(crc, part, length)
            progress(length)
        return crc
    for chunk in member_chunks(source, member):
        crc = isal_zlib.crc32(chunk, crc)
        progress(len(chunk))
    return crc


def _crc_of(chunks: Iterable[memoryview]) -> int:
    from isal import isal_zlib

    crc = 0
    for chunk in chunks:
        crc = isal_zlib.crc32(chunk, crc)
    return crc

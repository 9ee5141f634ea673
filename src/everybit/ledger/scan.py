"""One pass over a log: its intact frames, and the ranges between them that hold none.

After a damaged frame the scan goes on at the next sync mark that begins an intact frame. It
believes nothing that a checksum does not prove, reads at most one frame into memory, and never
raises over what the file holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from everybit.ledger.frame import (
    HEADER_BYTES,
    READ_FORMATS,
    SYNC,
    Header,
    check_of,
    decode_header,
    is_intact,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.ledger.window import Window

#: The scan hashes at most this many times the file's size: a file made so that every few bytes
#: begin a long frame must not keep the reader for ever.
_MAX_PASSES: Final = 8
_FREE_BYTES: Final = 64 * 1024 * 1024


class Intact(NamedTuple):
    """A frame whose checksum holds. `payload` is valid until the next frame is asked for."""

    start: int
    end: int
    header: Header
    check: bytes
    payload: memoryview


class Broken(NamedTuple):
    """Bytes in which no intact frame begins."""

    start: int
    end: int
    what: str


class Torn(NamedTuple):
    """The beginning of a frame whose rest was never written."""

    start: int
    end: int


def scan_frames(window: Window, start: int = 0) -> Iterator[Intact | Broken | Torn]:
    """Yield what the bytes of a log hold, in order and without gaps.

    Args:
        window: The log.
        start: Where to begin: 0, or where a frame begins.
    """
    at = start
    broken_from, torn_from, what = -1, -1, ""
    budget = _MAX_PASSES * window.size + _FREE_BYTES
    while at < window.size:
        head = window.read(at, HEADER_BYTES)
        header = decode_header(head) if len(head) == HEADER_BYTES else None
        if header is not None and header.version in READ_FORMATS:
            end = at + header.frame_bytes
            if end > window.size:
                torn_from = at if torn_from < 0 else torn_from
            elif budget > 0:
                frame = window.read(at, header.frame_bytes)
                budget -= len(frame)
                if len(frame) == header.frame_bytes and is_intact(frame):
                    if broken_from >= 0:
                        yield Broken(broken_from, at, what)
                    broken_from, torn_from, what = -1, -1, ""
                    yield Intact(at, end, header, check_of(frame), frame[HEADER_BYTES:-16])
                    at = end
                    continue
            else:
                what = "too much damage to look through"
        elif broken_from < 0 and len(head) < HEADER_BYTES and _may_begin_frame(head):
            torn_from = at
        if broken_from < 0:
            broken_from = at
            what = what or _describe(head, header)
        at = window.find(SYNC, at + 1)
    size = window.size
    if broken_from >= 0:
        if torn_from < 0:
            yield Broken(broken_from, size, what)
        else:
            if torn_from > broken_from:
                yield Broken(broken_from, torn_from, what)
            yield Torn(torn_from, size)


def _may_begin_frame(head: memoryview) -> bool:
    mark = bytes(head[: len(SYNC)])
    return SYNC.startswith(mark) and (len(head) <= len(SYNC) or head[len(SYNC)] in READ_FORMATS)


def _describe(head: memoryview, header: Header | None) -> str:
    if header is not None and header.version not in READ_FORMATS:
        return f"written in format {header.version}, which this everybit does not read"
    if header is not None:
        return f"frame {header.sequence} fails its checksum"
    if not any(head):
        return "zeros where a frame should begin"
    if bytes(head[: len(SYNC)]) == SYNC:
        return "a frame's header fails its check"
    return "bytes that are no frame"

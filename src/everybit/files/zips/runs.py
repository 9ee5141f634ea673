"""Archives end to end in one file, found one after the other by their own records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.files.window import Window
from everybit.files.zips import records as zr
from everybit.files.zips.recovery import recover

if TYPE_CHECKING:
    from everybit.files.source import ByteSource

_MAX_ARCHIVES: Final = 1_000_000
_MAX_DIRECTORY_BYTES: Final = 16 * 1024 * 1024
_PIECE_BYTES: Final = 1024 * 1024


def find_archives(source: ByteSource, *, most: int = _MAX_ARCHIVES) -> list[tuple[int, int]]:
    """Return the `[start, end)` of archives end to end, from the front of the file.

    Each is followed by its headers. Where one cannot be, it is taken to reach up to the next end
    record that a new archive, or nothing, follows; the last may be cut.
    """
    found: list[tuple[int, int]] = []
    at = 0
    while at < source.size and len(found) < most:
        end = _end_by_headers(source, at) or _end_by_search(source, at) or source.size
        found.append((at, end))
        at = end
    return found


def _end_by_headers(source: ByteSource, start: int) -> int | None:
    """Return where the archive that begins at an offset ends, by following its members."""
    window = Window(source, start, source.size)
    directory = recover(window).directory_start
    if directory is None:
        return None
    data = window.read(directory, _MAX_DIRECTORY_BYTES)
    at = 0
    while (entry := zr.parse_central(data, at)) is not None:
        at += entry.length
    if data[at : at + 4] == zr.END64_MARK:
        at += zr.END64.size
    if data[at : at + 4] == zr.LOCATOR64_MARK:
        at += zr.LOCATOR64.size
    end = _after_end_record(data, at)
    return None if end is None else start + directory + end


def _after_end_record(data: bytes, at: int) -> int | None:
    if data[at : at + 4] != zr.END_MARK or at + zr.END.size > len(data):
        return None
    return at + zr.END.size + int(zr.END.unpack_from(data, at)[-1])


def _end_by_search(source: ByteSource, start: int) -> int | None:
    """Return the end of the first end record after an offset that an archive or nothing follows."""
    at = start + 1
    while at < source.size:
        data = source.read(at, _PIECE_BYTES + zr.END.size + 4)
        place = data.find(zr.END_MARK)
        while 0 <= place < _PIECE_BYTES:
            end = _after_end_record(data, place)
            if end is not None and (
                at + end == source.size or source.read(at + end, 4) == zr.LOCAL_MARK
            ):
                return at + end
            place = data.find(zr.END_MARK, place + 1)
        at += _PIECE_BYTES
    return None

"""NumPy arrays: numbers are data, but in place of objects stands a pickle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.files.damage import MalformedError
from everybit.files.formats.npy import MAGIC, read_header
from everybit.files.scans.pickle_start import begins_pickle
from everybit.files.window import Window

if TYPE_CHECKING:
    from everybit.files.scans.content import Content
    from everybit.files.scans.walk import Walk

#: What is read of the elements of an array of objects.
_MAX_PICKLE_BYTES: Final = 256 * 1024 * 1024
#: Arrays end to end in one file, as repeated `numpy.save` writes them.
_MAX_ARRAYS: Final = 100_000
_HEAD_BYTES: Final = 64 * 1024


def look_into_array(content: Content, walk: Walk) -> None:
    """Judge the pickle in place of the elements, where an array is of objects."""
    at, size = 0, content.source.size
    for _ in range(_MAX_ARRAYS):
        end = _look_into_one(content, walk, at)
        if end is None or end >= size:
            return
        if content.source.read(end, len(MAGIC)) != MAGIC:
            _look_behind(content, walk, end)
            return
        at = end
    walk.closed(content, f"it holds more than {_MAX_ARRAYS:,} arrays")


def _look_into_one(content: Content, walk: Walk, at: int) -> int | None:
    """Look into the array at an offset; return where it ends, None where nothing can follow."""
    walk.outcome.count("arrays")
    source = content.source
    try:
        header = read_header(Window(source, at, source.size))
    except MalformedError as error:
        walk.damaged(content, error.damage)
        _look_past_header(content, walk, at)
        return None
    start = at + header.end
    if header.num_bytes is not None:
        return start + header.num_bytes
    from everybit.files.scans.streams import judge

    walk.outcome.count("pickles")
    if source.size - start > _MAX_PICKLE_BYTES:
        walk.closed(content, f"its array of objects has more than {_MAX_PICKLE_BYTES:,} bytes")
    end = judge(content, walk, source.read(start, _MAX_PICKLE_BYTES), start=start)
    return end if end > start else None


def _look_past_header(content: Content, walk: Walk, at: int) -> None:
    """Judge what follows a header that cannot be read here, and perhaps can elsewhere."""
    from everybit.files.scans.streams import judge

    head = content.source.read(at, _HEAD_BYTES)
    start = head.find(b"\n") + 1
    if start and begins_pickle(head[start:]):
        judge(content, walk, content.source.read(at + start, _MAX_PICKLE_BYTES), start=at + start)


def _look_behind(content: Content, walk: Walk, end: int) -> None:
    rest = content.source.read(end, 1024)
    if not rest.strip(b"\0"):
        return
    walk.warn(
        content,
        f"holds {content.source.size - end:,} bytes behind its array",
        where=content.place(end, content.source.size),
        trick="bytes behind its end",
    )
    if begins_pickle(rest):
        from everybit.files.scans.streams import judge

        judge(content, walk, content.source.read(end, _MAX_PICKLE_BYTES), start=end)

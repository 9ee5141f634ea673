"""Whether bytes begin a pickle: the old protocols have no mark, and the first of them is text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from everybit.files.damage import TooLargeError
from everybit.files.pickles.reader import PickleEndsError
from everybit.files.pickles.stream import read_pickles

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.files.pickles.stream import Stream
    from everybit.files.source import ByteSource

#: An import in letters, which is what a pickle that does harm needs first.
_IMPORT: Final = re.compile(rb"[ci][A-Za-z_][\w.]{0,200}\r?\n[A-Za-z_][\w.]{0,200}\r?\n")
_FIRST: Final = frozenset(b"(])}lNIJKMLFGSTUVX\x88\x89\x8a\x8b\x8c\x8d\x8eBC\x8f\x96\x95ciPd2p")
_MAX_STEPS: Final = 2000
_WHOLE_BYTES: Final = 64 * 1024 * 1024
#: How much is followed of what begins as something else, and as a pickle too.
_PIECES: Final = (1024, 256 * 1024, 16 * 1024 * 1024)


def begins_pickle(head: bytes, *, whole: bool = False) -> bool:
    """Return whether the first bytes of a content may be a pickle's.

    Args:
        head: The first bytes.
        whole: There are no others.
    """
    if head[:1] == b"\x80" and head[1:2] <= b"\x05" and len(head) > 1:
        return True
    if not head or head[0] not in _FIRST:
        return False
    return _reads_as_pickle(read_pickles(head, max_steps=_MAX_STEPS), head, whole=whole)


def _reads_as_pickle(stream: Stream, head: bytes, *, whole: bool) -> bool:
    first = stream.pickles[0]
    if first.calls or first.touches:
        return True
    if first.error is None:
        return bool(first.num_nodes or first.globals) or first.end == len(head)
    # Words, one a line, may read as an import; what follows them does not read as opcodes.
    cut = isinstance(first.error, PickleEndsError) and not whole
    return cut and bool(first.globals) and _IMPORT.search(head) is not None


def is_old_pickle(
    source: ByteSource, head: bytes, *, meant: bool, keep: Callable[[Stream], None]
) -> bool:
    """Return whether a content is a pickle of the old protocols, which are text and have no mark.

    Words, one a line, can read as imports for a while; they call nothing, and have no STOP.

    Args:
        source: The content.
        head: Its first bytes.
        meant: Its name or what it lies in says that it is a pickle.
        keep: Takes what was read where that is all of the content, so that nobody reads it again.
    """
    if not head or head[0] not in _FIRST:
        return False
    whole = source.size <= len(head)
    stream = read_pickles(head, max_steps=_MAX_STEPS)
    if not _reads_as_pickle(stream, head, whole=whole):
        return False
    if whole and not isinstance(stream.error, TooLargeError):
        keep(stream)
    if meant or whole:
        return True
    first = read_pickles(source.read(0, _WHOLE_BYTES)).pickles[0]
    return first.error is None or bool(first.calls or first.touches)


def may_go_on_as_pickle(head: bytes) -> bool:
    """Return whether these first bytes, all that is known, end within what reads as a pickle."""
    if not head or head[0] not in _FIRST:
        return False
    return isinstance(read_pickles(head, max_steps=_MAX_STEPS).pickles[0].error, PickleEndsError)


def acts_as_pickle(source: ByteSource, head: bytes) -> bool:
    """Return whether an unpickler, given what begins as another format, would call something.

    `GGUF` is a number to it, and the length before a header the start of a text. The `P` of an
    archive asks for an object from outside, which an unpickler of a plain file does not give.
    """
    if not head or head[0] not in _FIRST or head[:1] == b"P":
        return False
    for size in _PIECES:
        data = head if size <= len(head) else source.read(0, size)
        first = read_pickles(data).pickles[0]
        if any(called.name for called in first.calls):
            return True
        if not isinstance(first.error, PickleEndsError) or len(data) < size:
            return False
    # Only a text that is longer than all of this reaches here, and what is behind it counts.
    from everybit.files.scans.following import follow_pickle

    first = read_pickles(follow_pickle(source, joblib=False).data).pickles[0]
    return any(called.name for called in first.calls)

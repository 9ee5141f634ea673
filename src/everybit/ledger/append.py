"""A log being written: one `write(2)` a frame, each frame chained to the one before.

A frame lies in the kernel's page cache when `append` returns, so it outlives the process, however
that dies. Python may run a signal handler, or raise `KeyboardInterrupt`, between any two steps of
`append`; `settle` then finds out from the file's length how much of the frame under way was
written, and completes it.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING, NamedTuple, Self

from everybit.ledger.folder import publish, write_all
from everybit.ledger.frame import MAX_PAYLOAD_BYTES, Kind, check_of, encode_frame

if TYPE_CHECKING:
    from pathlib import Path


class _Place(NamedTuple):
    """What the next frame follows."""

    sequence: int
    previous: bytes
    size: int


class LogFile:
    """The writing end of one log. Every method raises `OSError` where the disk refuses.

    Args:
        fd: Descriptor, open to append; this object closes it.
        log_id: Number drawn for this log.
        first: Its first frame, already written.
    """

    def __init__(self, fd: int, *, log_id: int, first: bytes) -> None:
        self._fd = fd
        self._log_id = log_id
        self._place = _Place(1, check_of(first), len(first))
        self._under_way: tuple[_Place, bytes] | None = None

    @classmethod
    def create(cls, path: Path, payload: bytes, flags: int, *, log_id: int, run: bytes) -> Self:
        """Create the log with its first frame in it.

        Args:
            path: Where; `FileExistsError` where the name is taken.
            payload: The header frame's payload.
            flags: Its flags.
            log_id: Number drawn for this log.
            run: XXH3-128 of `run.json`.
        """
        first = encode_frame(
            Kind.HEADER, payload, flags=flags, sequence=0, log_id=log_id, previous=run
        )
        return cls(publish(path, first), log_id=log_id, first=first)

    @property
    def size(self) -> int:
        """Bytes written, whole frames only."""
        return self._place.size

    def append(self, kind: Kind, payload: bytes, flags: int = 0) -> None:
        """Append one frame."""
        if self._under_way is not None:
            self.settle()
        if len(payload) > MAX_PAYLOAD_BYTES:
            raise OSError(errno.EMSGSIZE, f"a frame of {len(payload)} bytes is too long")
        place = self._place
        frame = encode_frame(
            kind,
            payload,
            flags=flags,
            sequence=place.sequence,
            log_id=self._log_id,
            previous=place.previous,
        )
        self._under_way = (place, frame)
        write_all(self._fd, frame)
        self._place = _after(place, frame)
        self._under_way = None

    def settle(self) -> None:
        """Complete the frame that an interrupted `append` left, from where it was left."""
        if self._under_way is None:
            return
        place, frame = self._under_way
        if place is self._place:
            written = os.fstat(self._fd).st_size - place.size
            if not 0 <= written <= len(frame):
                raise OSError(errno.EIO, "something else has written to the log")
            if written < len(frame):
                write_all(self._fd, memoryview(frame)[written:])
            self._place = _after(place, frame)
        self._under_way = None

    def sync(self) -> None:
        """Wait until the disk has it."""
        os.fsync(self._fd)

    def divert(self) -> None:
        """Send whatever is still written through this object to nowhere.

        For a signal handler that ended the log inside an `append`: the interrupted call goes on to
        its `write`, and the descriptor must by then not be another file's.
        """
        with contextlib.suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            try:
                os.dup2(nowhere, self._fd, inheritable=False)
            finally:
                os.close(nowhere)

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


def _after(place: _Place, frame: bytes) -> _Place:
    return _Place(place.sequence + 1, check_of(frame), place.size + len(frame))

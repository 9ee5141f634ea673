"""A part of a file, read as if it were a file of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from pathlib import Path


class Window(ByteSource):
    """Bytes `[start, end)` of an open file, counted from zero; closing it closes nothing.

    Args:
        source: The file, which stays its owner's.
        start: First byte.
        end: Last byte, excluded; the window is shorter where the file is.
    """

    def __init__(self, source: ByteSource, start: int, end: int) -> None:
        self._source = source
        self._start = start
        self.size = max(0, min(end, source.size) - start)

    @property
    def path(self) -> Path:
        """The file."""
        return self._source.path

    def close(self) -> None:
        """Do nothing: the file is its owner's."""

    def again(self) -> Window:
        """Return the same window of the file opened once more."""
        return Window(self._source.again(), self._start, self._start + self.size)

    def changed(self) -> bool:
        """Return whether somebody wrote to the file since it was opened."""
        return self._source.changed()

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset` on; fewer only at the end of the window."""
        length = max(0, min(length, self.size - offset))
        return self._source.read(self._start + offset, length)

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill `buffer` from `offset` on, never from beyond the window."""
        room = max(0, min(len(buffer), self.size - offset))
        return self._source.read_into(self._start + offset, buffer[:room])

"""A file as it would be with some bytes put right; the file itself is left alone."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING

from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from collections.abc import Mapping


class PatchedSource(ByteSource):
    """Reads a file with some of its bytes replaced.

    Args:
        source: The file, open; it stays the caller's to close.
        right: `{file offset: byte to read there}`.
    """

    def __init__(self, source: ByteSource, right: Mapping[int, int]) -> None:
        self._where = source._where
        self.size = source.size
        self._file = source._file
        self._identity = source._identity
        self._offsets = sorted(right)
        self._right = right

    def close(self) -> None:
        """Do nothing: the file is the caller's."""

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset` on, with the replaced bytes."""
        buffer = memoryview(bytearray(max(0, min(length, self.size - offset))))
        return bytes(buffer[: self.read_into(offset, buffer)])

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill `buffer` from `offset` on, with the replaced bytes; return how many there were."""
        filled = super().read_into(offset, buffer)
        first = bisect.bisect_left(self._offsets, offset)
        last = bisect.bisect_left(self._offsets, offset + filled)
        for place in self._offsets[first:last]:
            buffer[place - offset] = self._right[place]
        return filled

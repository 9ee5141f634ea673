"""A file read through a bounded window; not mapped: a mapped file that shrinks kills its reader."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Self

from everybit.ledger.folder import open_regular

if TYPE_CHECKING:
    from pathlib import Path

WINDOW_BYTES: Final = 1024 * 1024
_SECTOR_BYTES: Final = 4096


class Window:
    """Random access to the bytes a file had when it was opened.

    Bytes that the disk cannot give (EIO) read as zeros, so that what lies around them is still
    read.

    Args:
        path: The file; `OSError` where it cannot be opened.
        window_bytes: How much is read at a time, where no more is asked for.
    """

    def __init__(self, path: Path, window_bytes: int = WINDOW_BYTES) -> None:
        self._fd = open_regular(path)
        self.size = os.fstat(self._fd).st_size
        self._window_bytes = window_bytes
        self._start = 0
        self._data = b""
        self._buffer = memoryview(self._data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def read(self, offset: int, num_bytes: int) -> memoryview:
        """Return `num_bytes` bytes at `offset`; fewer at the end of the file."""
        begin = offset - self._start
        if begin < 0 or begin + num_bytes > len(self._buffer):
            self._fill(offset, max(num_bytes, self._window_bytes))
            begin = 0
        return self._buffer[begin : begin + num_bytes]

    def find(self, mark: bytes, offset: int) -> int:
        """Return where `mark` is next found from `offset` on; the file's size where it is not."""
        while offset < self.size:
            if not self._start <= offset < self._start + len(self._data):
                self._fill(offset, self._window_bytes)
            found = self._data.find(mark, offset - self._start)
            if found >= 0:
                return self._start + found
            # A mark may lie across the window's end.
            end = self._start + len(self._data)
            if end >= self.size:
                break
            self._fill(max(offset, end - len(mark) + 1), self._window_bytes)
            offset = self._start
        return self.size

    def _fill(self, offset: int, num_bytes: int) -> None:
        wanted = max(0, min(num_bytes, self.size - offset))
        data = self._pread(offset, wanted)
        if len(data) < wanted:  # cut while it is read
            self.size = min(self.size, offset + len(data))
        self._start, self._data, self._buffer = offset, data, memoryview(data)

    def _pread(self, offset: int, num_bytes: int) -> bytes:
        try:
            return os.pread(self._fd, num_bytes, offset)
        except OSError:
            pass
        parts = []
        while num_bytes > 0:
            size = min(_SECTOR_BYTES - offset % _SECTOR_BYTES, num_bytes)
            try:
                part = os.pread(self._fd, size, offset)
            except OSError:
                part = bytes(size)
            parts.append(part)
            if len(part) < size:
                break
            offset, num_bytes = offset + size, num_bytes - size
        return b"".join(parts)

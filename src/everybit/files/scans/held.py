"""Bytes held in memory: what a compressed member or stream holds, and small files."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, BinaryIO, Final

from everybit.core.errors import PathError
from everybit.files.source import ByteSource, identity_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

#: More than this lies in an unnamed temporary file, so that memory stays bounded.
MEMORY_BYTES: Final = 64 * 1024 * 1024
#: A file of up to this many bytes is read at once.
SMALL_BYTES: Final = 1024 * 1024
_READ_ONLY: Final = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


class Held(ByteSource):
    """Decompressed bytes, read at any offset as a file is.

    Args:
        path: The file that they come from.
        chunks: The bytes, in order.
    """

    def __init__(self, path: Path, chunks: Iterable[bytes | memoryview]) -> None:
        self.path = path
        self._data = bytearray()
        self._spill: BinaryIO | None = None
        self.size = 0
        try:
            for chunk in chunks:
                self._keep(chunk)
        except BaseException:
            self.close()
            raise

    def _keep(self, chunk: bytes | memoryview) -> None:
        self.size += len(chunk)
        if self._spill is None and self.size <= MEMORY_BYTES:
            self._data += chunk
            return
        try:
            self._spill_over(chunk)
        except OSError as error:
            raise PathError.from_os_error(
                error, "the temporary folder", todo="make room there, or set TMPDIR"
            ) from error

    def _spill_over(self, chunk: bytes | memoryview) -> None:
        if self._spill is None:
            import tempfile

            self._spill = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
            self._spill.write(self._data)
            self._data = bytearray()
        self._spill.write(chunk)

    def close(self) -> None:
        """Let the bytes go."""
        if self._spill is not None:
            self._spill.close()
        self._data = bytearray()

    def again(self) -> Held:
        """Return itself: there is no file to open once more."""
        return self

    def changed(self) -> bool:
        """Return False: nobody else can write to it."""
        return False

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset` on; fewer only at the end."""
        if self._spill is not None:
            return super().read(offset, length)
        return bytes(memoryview(self._data)[offset : offset + max(length, 0)])

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill `buffer` from `offset` on; return how many bytes there were."""
        room = max(0, min(len(buffer), self.size - offset))
        if self._spill is not None:
            self._spill.seek(offset)
            piece = self._spill.read(room)
        else:
            piece = bytes(memoryview(self._data)[offset : offset + room])
        buffer[: len(piece)] = piece
        return len(piece)


class Small(ByteSource):
    """A small file, read once: what looks at it in many places asks the disk no more.

    Args:
        where: The file.
        identity: Device, inode, size and times of it when it was opened.
        data: Its bytes.
    """

    def __init__(self, where: str, identity: tuple[int, ...], data: bytes) -> None:
        self._where = where
        self._identity = identity
        self.data = data
        self.size = len(data)

    @staticmethod
    def of(source: ByteSource) -> Small:
        """Return an open file's bytes; it stays its owner's."""
        return Small(str(source.path), source.identity, source.read(0, source.size))

    def close(self) -> None:
        """Do nothing: no file is open."""

    def again(self) -> Small:
        """Return itself: its bytes change no more."""
        return self

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset` on; fewer only at the end of the file."""
        return self.data[offset : offset + length] if offset >= 0 < length else b""

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill `buffer` from `offset` on; return how many bytes there were."""
        piece = self.data[offset : offset + len(buffer)]
        buffer[: len(piece)] = piece
        return len(piece)


def open_file(where: str) -> ByteSource:
    """Return a file: read whole if it is small, in a third of the time that opening it takes.

    Raises:
        FolderError: It is a folder.
        PathError: It cannot be opened, or is no regular file.
    """
    try:
        # Opening a FIFO would wait for a writer, so look first.
        found = os.stat(where)  # noqa: PTH116 - a path would be built for it
        if stat.S_ISREG(found.st_mode) and found.st_size <= SMALL_BYTES:
            handle = os.open(where, _READ_ONLY)
            try:
                identity = identity_of(os.fstat(handle))
                data = os.read(handle, identity[2])
            finally:
                os.close(handle)
            if len(data) == identity[2] <= SMALL_BYTES:
                return Small(where, identity, data)
    except OSError:
        pass  # opening it says why
    return ByteSource(where)

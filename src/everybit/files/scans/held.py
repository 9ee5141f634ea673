"""Bytes that exist in no file: what a compressed member or stream holds."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, BinaryIO, Final

from everybit.core.errors import PathError
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

#: More than this lies in an unnamed temporary file, so that memory stays bounded.
MEMORY_BYTES: Final = 64 * 1024 * 1024
#: A file of up to this many bytes is read at once.
SMALL_BYTES: Final = 1024 * 1024


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
        source: The file, which stays its owner's.
    """

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._bytes = source.read(0, source.size)
        self.size = len(self._bytes)

    @cached_property
    def path(self) -> Path:
        """The file."""
        return self._source.path

    @property
    def identity(self) -> tuple[int, ...]:
        """Device, inode, size and times of the file when it was opened."""
        return self._source.identity

    def close(self) -> None:
        """Do nothing: the file is its owner's."""

    def again(self) -> Small:
        """Return itself: its bytes change no more."""
        return self

    def changed(self) -> bool:
        """Return whether somebody wrote to the file since it was opened."""
        return self._source.changed()

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset` on; fewer only at the end of the file."""
        return self._bytes[offset : offset + length] if offset >= 0 < length else b""

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill `buffer` from `offset` on; return how many bytes there were."""
        piece = self._bytes[offset : offset + len(buffer)]
        buffer[: len(piece)] = piece
        return len(piece)

"""Bytes that exist in no file: what a compressed member or stream holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Final

from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

#: More than this lies in an unnamed temporary file, so that memory stays bounded.
MEMORY_BYTES: Final = 64 * 1024 * 1024


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

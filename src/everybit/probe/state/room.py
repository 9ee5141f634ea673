"""Where copies are held: in memory, and beyond a limit in a file that nobody else can open."""

from __future__ import annotations

import os
import tempfile
from typing import IO, TYPE_CHECKING

import numpy as np

from everybit.core.errors import PathError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]


class Room:
    """Room for the copies of one `State`.

    Args:
        memory_bytes: Hold so many bytes in memory; all of them where None.
        folder: Where the file for the rest goes; the folder for temporary files where None. The
            file has no name (it goes with the process, however that ends) and mode 0600.
    """

    def __init__(self, memory_bytes: int | None, folder: Path | None) -> None:
        self._left = memory_bytes
        self._folder = folder
        self._file: IO[bytes] | None = None

    def take(self, num_bytes: int) -> bool:
        """Whether so many bytes may be held in memory; if so, they are."""
        if self._left is None:
            return True
        if num_bytes > self._left:
            return False
        self._left -= num_bytes
        return True

    def spill(self, data: Bytes) -> Spilled:
        """Write bytes to the file.

        Raises:
            PathError: It cannot be written.
        """
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
            offset = self._file.seek(0, os.SEEK_END)
            view = memoryview(data.data)
            while view:
                view = view[self._file.write(view) :]
        except OSError as error:
            where = self._folder or tempfile.gettempdir()
            raise PathError.from_os_error(error, where, todo="name a folder with room") from error
        return Spilled(self._file, offset, len(data))


class Spilled:
    """Bytes in a file; the file lives as long as any of them."""

    __slots__ = ("_file", "_offset", "num_bytes")

    def __init__(self, file: IO[bytes], offset: int, num_bytes: int) -> None:
        self._file = file
        self._offset = offset
        self.num_bytes = num_bytes

    def read(self) -> Bytes:
        """Return the bytes; fewer where the file was cut."""
        data = bytearray()
        while len(data) < self.num_bytes:
            piece = os.pread(
                self._file.fileno(), self.num_bytes - len(data), self._offset + len(data)
            )
            if not piece:
                break
            data += piece
        return np.frombuffer(data, np.uint8)

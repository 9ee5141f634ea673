"""Bounded reads from a file: no memory map (see `mapped`), never more than was asked for."""

from __future__ import annotations

import io
import os
import stat
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from everybit.core.errors import PathError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

#: Bytes read at once: fits the second-level cache, so that what is read is hashed while warm.
CHUNK_BYTES: Final = 512 * 1024


class FolderError(PathError):
    """A folder lies where a file was wanted."""


class ByteSource:
    """A regular file, open for reading at any offset; a context manager.

    Plain reads give a clean error where a memory map would kill the process (a file that shrinks,
    a disk that fails).

    Args:
        path: The file.

    Raises:
        FolderError: It is a folder.
        PathError: It cannot be opened, or is no regular file.
    """

    def __init__(self, path: Path | str) -> None:
        self._where = os.fspath(path)
        try:
            # Opening a FIFO would wait for a writer, so look first.
            mode = os.stat(self._where).st_mode  # noqa: PTH116 - a path would be built for it
            if not stat.S_ISREG(mode):
                raise self._refused(mode)
            self._file = io.FileIO(self._where)
        except OSError as error:
            raise PathError.from_os_error(error, self.path) from error
        self._identity = identity_of(os.fstat(self._file.fileno()))
        self.size = self._identity[2]

    def _refused(self, mode: int) -> PathError:
        where = str(self.path)
        if stat.S_ISDIR(mode):
            return FolderError("is a folder", where=where, todo="name a file")
        return PathError("is not a regular file", where=where, todo="name a file")

    @cached_property
    def path(self) -> Path:
        """The file."""
        return Path(self._where)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def identity(self) -> tuple[int, ...]:
        """Device, inode, size and times of the file when it was opened."""
        return self._identity

    def fileno(self) -> int:
        """Return the descriptor, which is open as long as this is."""
        return self._file.fileno()

    def is_cached(self, num_samples: int) -> bool:
        """Return whether bytes at so many places come from memory; not where nobody can tell."""
        if not hasattr(os, "RWF_NOWAIT"):
            return False
        buffer = bytearray(1)
        try:
            return all(
                os.preadv(self.fileno(), [buffer], number * self.size // num_samples, os.RWF_NOWAIT)
                for number in range(num_samples)
            )
        except OSError:
            return False

    def again(self) -> ByteSource:
        """Return the same file opened once more, so that a thread can read it on its own.

        Raises:
            PathError: It cannot be opened, or another file lies there now.
        """
        other = ByteSource(self.path)
        if other._identity[:2] != self._identity[:2]:
            other.close()
            raise PathError("was replaced while it was read", where=str(self.path))
        other.size = self.size
        return other

    def changed(self) -> bool:
        """Return whether somebody wrote to the file, or replaced it, since it was opened."""
        try:
            return identity_of(os.stat(self._where)) != self._identity  # noqa: PTH116 - as above
        except OSError:
            return True

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset` on; fewer only at the end of the file."""
        length = max(0, min(length, self.size - offset))
        try:
            self._file.seek(offset)
            piece = self._file.read(length)
        except OSError as error:
            raise self._failed(error) from error
        if len(piece) == length:
            return piece
        # A signal, or a disk that gives less at a time.
        buffer = bytearray(length)
        filled = self.read_into(offset, memoryview(buffer))
        return bytes(memoryview(buffer)[:filled])

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill `buffer` from `offset` on; return how many bytes there were."""
        filled = 0
        try:
            self._file.seek(offset)
            while filled < len(buffer):
                count = self._file.readinto(buffer[filled:])
                if not count:
                    break
                filled += count
        except OSError as error:
            raise self._failed(error) from error
        return filled

    def _failed(self, error: OSError) -> PathError:
        advice = "the medium may be failing; copy what can be read"
        return PathError.from_os_error(error, self.path, todo=advice)

    def chunks(
        self, start: int = 0, end: int | None = None, *, size: int = CHUNK_BYTES
    ) -> Iterator[memoryview]:
        """Yield the bytes from `start` to `end` in order, in views of one buffer used again.

        Stops early where the file ends early. A view is valid until the next one is asked for.
        """
        end = self.size if end is None else end
        buffer = memoryview(bytearray(max(0, min(size, end - start))))
        while start < end:
            count = self.read_into(start, buffer[: min(len(buffer), end - start)])
            if not count:
                return
            yield buffer[:count]
            start += count

    def advise_sequential(self) -> None:
        """Tell the kernel that the file will be read from start to end, where it can be told."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)


def identity_of(found: os.stat_result) -> tuple[int, ...]:
    """Return what tells a file from another, and from itself after a change."""
    return (
        found.st_dev,
        found.st_ino,
        found.st_size,
        found.st_mtime_ns,
        # Creation time on Windows, which is harmless here.
        found.st_ctime_ns,
    )

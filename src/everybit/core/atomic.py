"""Write a file whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from everybit.core.errors import PathError


def check_writable(path: Path) -> None:
    """Raise `PathError` where `path` can clearly not be written; writes nothing."""
    if path.is_dir():
        raise PathError("is a folder", where=str(path), todo="name a file")
    folder = path.resolve().parent
    if not folder.is_dir():
        raise PathError(
            "the folder it should lie in does not exist", where=str(path), todo="create it first"
        )
    place = path if path.exists() and not path.is_file() else folder
    if not os.access(place, os.W_OK):
        raise PathError("cannot be written", where=str(path), todo="choose another place")


def write_atomically(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write `data` to `path`: another process sees the old content or the new, never a part.

    The data reach the disk before the name does (fsync of the file, then of its folder). A
    symbolic link is followed; a device or pipe is written straight.

    Args:
        path: Where to. An existing file is replaced and keeps its mode.
        data: The whole content.
        mode: Mode of a new file.

    Raises:
        PathError: It cannot be written; what was there before is untouched.
    """
    path = path.resolve() if path.is_symlink() else path
    try:
        found = path.stat().st_mode if path.exists() else None
        if found is not None and not stat.S_ISREG(found):
            path.write_bytes(data)
            return
        mode = mode if found is None else stat.S_IMODE(found)
        import tempfile  # loads much that nothing else here needs

        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                os.chmod(name, mode)  # noqa: PTH101
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
    except OSError as error:
        raise PathError.from_os_error(error, path) from error


def sync_folder(folder: Path) -> None:
    """Have the names in a folder reach the disk, where its file system can.

    Where it cannot, the files themselves are complete all the same.
    """
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

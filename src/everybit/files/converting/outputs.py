"""New files that appear together: all of them whole, or none; nothing is ever overwritten."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from everybit.core.atomic import sync_folder
from everybit.core.errors import PathError
from everybit.files.salvage.writing import put_new, refuse_existing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Room for a sidecar and the file system's own needs, in bytes.
_SPARE_BYTES: Final = 1 << 20


@contextlib.contextmanager
def new_folder(path: Path, needed_bytes: int) -> Iterator[Path]:
    """Give a temporary folder that becomes `path` at the end, in one step.

    Args:
        path: The new folder.
        needed_bytes: What will be written, at least.

    Raises:
        PathError: Something lies at `path`, it cannot be written, or the disk is too small;
            nothing is left behind.
    """
    refuse_existing(path)
    temporary = None
    try:
        _refuse_full(path.absolute().parent, path, needed_bytes)
        name = tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        temporary = Path(name)
        yield temporary
        temporary.chmod(0o755)
        sync_folder(temporary)
        refuse_existing(path)
        temporary.rename(path)
        sync_folder(path.absolute().parent)
    except OSError as error:
        raise PathError.from_os_error(error, path) from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def new_files(paths: Sequence[Path], needed_bytes: int) -> Iterator[list[Path]]:
    """Give temporary files that become `paths` at the end, in this order.

    Args:
        paths: The new files, all in one folder.
        needed_bytes: What will be written, at least.

    Raises:
        PathError: Something lies at one of them, it cannot be written, or the disk is too small;
            nothing is left behind.
    """
    for path in paths:
        refuse_existing(path)
    temporary: list[Path] = []
    placed: list[Path] = []
    try:
        _refuse_full(paths[0].absolute().parent, paths[0], needed_bytes)
        for path in paths:
            handle, name = tempfile.mkstemp(
                prefix=f".{path.name}.", suffix=".part", dir=path.parent
            )
            os.close(handle)
            temporary.append(Path(name))
        yield temporary
        for made, path in zip(temporary, paths, strict=True):
            made.chmod(0o644)
            put_new(made, path)
            placed.append(path)
        sync_folder(paths[0].absolute().parent)
    except BaseException as error:
        for path in placed:
            path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise PathError.from_os_error(error, paths[0]) from error
        raise
    finally:
        for made in temporary:
            made.unlink(missing_ok=True)


def _refuse_full(folder: Path, path: Path, needed_bytes: int) -> None:
    """Refuse before the work what the disk has no room for."""
    free = shutil.disk_usage(folder).free
    if free < needed_bytes + _SPARE_BYTES:
        raise PathError(
            f"needs {needed_bytes} bytes, and {free} are free on its disk",
            where=str(path),
            todo="make room, or name another place",
        )

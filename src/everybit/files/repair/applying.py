"""Writing a repaired file: beside the damaged one, proved, and only then in its place."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from everybit.core.atomic import check_writable, sync_folder
from everybit.core.errors import PathError
from everybit.files.folder import KEPT_SUFFIX
from everybit.files.passes import no_progress
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.files.repair.mending import Mending

_COPY_BYTES: Final = 8 << 20
_MAX_KEPT: Final = 1000


class UnprovenError(Exception):
    """What was written does not hold; the original is as it was."""


def real_place(path: Path) -> Path:
    """Return the file that a path means: the target of a link.

    Raises:
        PathError: The link leads nowhere or in a circle, or the path is no regular file.
    """
    if path.is_symlink():
        try:
            target = path.resolve(strict=True)
        except (OSError, RuntimeError):
            raise PathError(
                "is a link that leads nowhere or in a circle", where=str(path), todo="mend the link"
            ) from None
        path = target
    if path.exists() and not path.is_file():
        raise PathError("is no regular file", where=str(path), todo="name a file")
    return path


def apply(
    mending: Mending, *, keep: bool, progress: Callable[[int], None] = no_progress
) -> Path | None:
    """Write the repaired file and put it in the place of the damaged one.

    Another process sees the damaged file or the repaired one, never a part. Where writing or the
    proof fails, or the process is killed, the damaged file stays as it was.

    Args:
        mending: What is put back.
        keep: Leave the damaged original beside it, as `NAME.damaged`.
        progress: Is told the bytes written, as they are.

    Returns:
        Where the original was kept; None where it was not.

    Raises:
        PathError: It cannot be read or written (a full disk); nothing has changed.
        UnprovenError: What was written does not hold; nothing has changed.
    """
    place = real_place(mending.path)
    there = place.exists()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        check_writable(place)
        if there and not os.access(place, os.W_OK):
            raise PathError("is read-only", where=str(place), todo="chmod u+w, if it may change")
        handle, name = tempfile.mkstemp(prefix=f".{place.name}.", suffix=".part", dir=place.parent)
        written = Path(name)
        try:
            with os.fdopen(handle, "r+b", buffering=0) as file:
                if there:
                    _write_repaired(file.fileno(), place, mending, progress)
                else:
                    _put_mends(file.fileno(), mending)
                os.fsync(file.fileno())
            problem = mending.proves(written)
            if problem:
                raise UnprovenError(problem)
            if there:
                _carry_over(place, written)
            else:
                written.chmod(0o644)
            kept = _keep(place) if keep and there else None
            written.replace(place)
        except BaseException:
            written.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise PathError.from_os_error(error, place) from error
    sync_folder(place.parent)
    return kept


def _write_repaired(
    handle: int, place: Path, mending: Mending, progress: Callable[[int], None]
) -> None:
    with ByteSource(place) as source:
        _copy(source, handle, min(source.size, mending.size_bytes), progress)
        _put_mends(handle, mending)
        if source.changed():
            raise PathError(
                "changed while it was repaired", where=str(place), todo="stop what writes to it"
            )


def _put_mends(handle: int, mending: Mending) -> None:
    os.ftruncate(handle, mending.size_bytes)
    for mend in sorted(mending.mends, key=lambda mend: mend.start):
        data = memoryview(mend.fetch())
        if len(data) != mend.end - mend.start:
            raise UnprovenError("bytes to be put back could not be read again")
        offset = mend.start
        while data:
            count = os.pwrite(handle, data, offset)
            data, offset = data[count:], offset + count


def _copy(source: ByteSource, handle: int, size: int, progress: Callable[[int], None]) -> None:
    """Copy the first `size` bytes, inside the kernel where it can."""
    done = 0
    if hasattr(os, "copy_file_range"):
        # Across file systems, or on old ones, it is refused: then byte by byte.
        with contextlib.suppress(OSError), source.path.open("rb", buffering=0) as original:
            while done < size:
                step = min(_COPY_BYTES, size - done)
                count = os.copy_file_range(original.fileno(), handle, step, done, done)
                if not count:
                    break
                done += count
                progress(count)
    for chunk in source.chunks(done, size):
        view = chunk
        while view:
            count = os.pwrite(handle, view, done)
            view, done = view[count:], done + count
        progress(len(chunk))


def _carry_over(place: Path, written: Path) -> None:
    """Give the new file the mode, owner and times of the old one, as far as that is allowed."""
    found = place.stat()
    with contextlib.suppress(OSError):
        os.chown(written, found.st_uid, found.st_gid)
    shutil.copystat(place, written)


def _keep(place: Path) -> Path:
    """Give the original a second name and return it."""
    for number in range(_MAX_KEPT):
        kept = place.with_name(f"{place.name}{f'.{number}' if number else ''}{KEPT_SUFFIX}")
        if kept.exists():
            continue
        try:
            kept.hardlink_to(place)
        except OSError:
            # A file system without hard links: the name moves, and comes back with the new file.
            shutil.copy2(place, kept)
        return kept
    raise PathError("has been kept too often", where=str(place), todo="remove old .damaged files")

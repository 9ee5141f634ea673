"""One save into a vault at a time, whoever calls it: the ranks of a job may all do."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Final

from everybit.core.errors import PathError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_WAIT_SECONDS: Final = 600.0
_PAUSE_SECONDS: Final = 0.05


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the vault's lock, which the system takes back from a process that is killed.

    Where the file system or the platform has no such locks, nothing is held.

    Raises:
        PathError: Another process held it for ten minutes, or the folder cannot be read.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    try:
        # The folder itself: no file that somebody could copy or remove.
        handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise PathError.from_os_error(error, folder) from error
    try:
        end = time.monotonic() + _WAIT_SECONDS
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > end:
                    what = "another process has been saving into it for ten minutes"
                    raise PathError(what, where=str(folder), todo="end it, then save") from None
                time.sleep(_PAUSE_SECONDS)
                continue
            except OSError:
                pass  # A network file system without locks.
            break
        yield
    finally:
        os.close(handle)

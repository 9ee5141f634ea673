"""Files and connections that a data set holds open, and the position that processes share."""

from __future__ import annotations

import io
import os
import sys
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Connections by module: the class of each.
_CONNECTIONS: Final = {"socket": "socket", "sqlite3": "Connection"}


def kind_of(handle: Any) -> str:
    """Return `file`, `socket`, `sqlite3` or `lmdb`."""
    if isinstance(handle, io.IOBase):
        return "file"
    return next((name for name in _CONNECTIONS if _is_one(handle, name)), "lmdb")


def is_connection(value: Any) -> bool:
    """Whether it is a socket or a database connection."""
    return any(_is_one(value, name) for name in _CONNECTIONS)


def _is_one(value: Any, name: str) -> bool:
    module = sys.modules.get(name)  # Not loaded by the program, it made none.
    return module is not None and isinstance(value, getattr(module, _CONNECTIONS[name]))


def name_of(handle: Any) -> str:
    """Return the name of a handle's file, "" with none."""
    name = getattr(handle, "name", "")
    return name if isinstance(name, str) else ""


def position_of(handle: Any) -> int | None:
    """Return the position in the file that all holders of the descriptor share; None for unknown.

    It is read from the kernel, past the object: nothing of it is touched.
    """
    try:
        text = Path(f"/proc/self/fdinfo/{handle.fileno()}").read_text()
    except (OSError, ValueError, AttributeError):
        return None
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name == "pos":
            return int(value)
    return None


_open: Final[weakref.WeakSet[Any]] = weakref.WeakSet()
_opened_in: Final[list[int]] = []


def note_inherited(handles: Mapping[str, Any]) -> None:
    """Note what is open in this process: workers that are forked from it inherit that."""
    _opened_in[:] = [os.getpid()]
    for each in handles.values():
        try:
            _open.add(each)
        except TypeError:  # It cannot be held weakly.
            continue


def inherited(handles: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the paths at which a worker's data set holds what its parent had opened.

    A file that the data set holds once more, opened in the worker, is read through that: so it is
    where each process has a handle of its own, by its number.

    Args:
        handles: What the data set holds open in this process, by path.
    """
    if not _opened_in or os.getpid() in _opened_in:
        return ()
    own = {_file_of(each) for each in handles.values() if not _is_noted(each)}
    return tuple(
        path
        for path, each in handles.items()
        if _is_noted(each) and (_file_of(each) is None or _file_of(each) not in own)
    )


def _is_noted(handle: Any) -> bool:
    try:
        return handle in _open
    except TypeError:
        return True


def _file_of(handle: Any) -> tuple[int, int] | None:
    """Return device and number of an open file; None of what is none."""
    try:
        held = os.fstat(handle.fileno())
    except (OSError, ValueError, AttributeError):
        return None
    return held.st_dev, held.st_ino


def positions(handles: Mapping[str, Any]) -> dict[str, int | None]:
    """Return the shared positions of the files among some handles, by path in the data set."""
    return {path: position_of(each) for path, each in handles.items() if kind_of(each) == "file"}

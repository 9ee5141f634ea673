"""Files and connections that a data set holds open, and the position that processes share."""

from __future__ import annotations

import io
import sys
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


def positions(handles: Mapping[str, Any]) -> dict[str, int | None]:
    """Return the shared positions of the files among some handles, by path in the data set."""
    return {path: position_of(each) for path, each in handles.items() if kind_of(each) == "file"}

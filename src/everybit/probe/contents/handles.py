"""Files and connections that a data set holds open, and the position that processes share."""

from __future__ import annotations

import io
import socket
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def kind_of(handle: Any) -> str:
    """Return `file`, `socket`, `sqlite3` or `lmdb`."""
    if isinstance(handle, io.IOBase):
        return "file"
    if isinstance(handle, socket.socket):
        return "socket"
    return "sqlite3" if isinstance(handle, sqlite3.Connection) else "lmdb"


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

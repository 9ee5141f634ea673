"""stdout and stderr as everybit writes to them, and as a script finds them under `python`."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

_OWN_ERRORS: dict[str, str | None] = {}


def prepare_streams() -> None:
    """Let any text be written: what the encoding lacks goes out escaped."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller: keep its number from other files
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            _OWN_ERRORS.setdefault(name, stream.errors)
            stream.reconfigure(errors="backslashreplace")


def restore_streams() -> None:
    """Leave to a script what `python` would have given it."""
    for name, errors in _OWN_ERRORS.items():
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)

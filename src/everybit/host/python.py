"""The interpreter, the operating system and this process."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any


def read_python() -> dict[str, Any]:
    """Return the interpreter: version, build, flags that change behaviour."""
    return {
        "implementation": platform.python_implementation(),
        "version": platform.python_version(),
        "build": " ".join(platform.python_build()),
        "compiler": platform.python_compiler(),
        "optimize": sys.flags.optimize,
        "hash_randomization": sys.flags.hash_randomization,
        "executable": sys.executable,
        "prefix": sys.prefix,
    }


def read_host() -> dict[str, Any]:
    """Return the machine's name and system, recorded and not compared."""
    uname = os.uname() if hasattr(os, "uname") else None
    return {
        "name": platform.node(),
        "system": platform.system(),
        "kernel": uname.release if uname else platform.release(),
        "boot_id": _first_line("/proc/sys/kernel/random/boot_id"),
    }


def read_process() -> dict[str, Any]:
    """Return this process, recorded and not compared."""
    return {"pid": os.getpid(), "folder": str(Path.cwd())}


def _first_line(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except OSError:
        return None

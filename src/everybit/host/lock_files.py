"""Files that fix versions (constraints, lock files), by digest: their text is not recorded."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Final

#: Patterns of their names, as pip, uv, Poetry, PDM, Pipenv, Pixi and Conda write them.
PATTERNS: Final = (
    "constraints*.txt",
    "requirements*.txt",
    "pylock*.toml",
    "uv.lock",
    "poetry.lock",
    "pdm.lock",
    "pixi.lock",
    "Pipfile.lock",
    "conda-lock.yml",
    "environment.yml",
    "environment.yaml",
)
_MAX_BYTES: Final = 16 * 1024 * 1024
_MAX_FILES: Final = 32
_MAX_UP: Final = 8


def read_lock_files(folder: Path | None = None) -> dict[str, Any]:
    """Return `{file name: 16 hex digits}` of the nearest folder that holds any, upwards.

    Line ends and trailing blanks do not count: an editor on another system changes them. The search
    ends at the root of a repository.

    Args:
        folder: Where to begin; the working directory where None.
    """
    here = (folder or Path.cwd()).resolve()
    for place in (here, *list(here.parents)[:_MAX_UP]):
        found = sorted({path for pattern in PATTERNS for path in place.glob(pattern)})
        digests = {path.name: _digest(path) for path in found[:_MAX_FILES] if path.is_file()}
        if digests:
            return digests
        if (place / ".git").exists():
            break
    return {"absent": "no lock file beside the code"}


def _digest(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_BYTES:
            return f"too large ({path.stat().st_size} bytes)"
        lines = [line.rstrip() for line in path.read_bytes().splitlines()]
    except OSError as error:
        return f"unreadable ({error.strerror})"
    return hashlib.sha256(b"\n".join(lines)).hexdigest()[:16]

"""Where the file of a finding lies, as other tools name files: from the working directory."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from everybit.core.finding import Finding
    from everybit.core.verdict import Verdict


def find_file(verdict: Verdict, finding: Finding) -> str:
    """Return the path of a finding's file from the working directory, with `/` between parts.

    `where.path` is relative to one of the targets, and the verdict does not say which: it is the
    target under which such a file lies. The target itself where the finding names no file.
    """
    wanted = finding.where.path or finding.where.run
    if wanted is None:
        return PurePosixPath(verdict.target[0]).as_posix() if verdict.target else "."
    for target in verdict.target:
        place = Path(target)
        for candidate in (place / wanted, place.parent / wanted):
            if _exists(candidate):
                return candidate.as_posix()
    if len(verdict.target) == 1 and _exists(Path(verdict.target[0]) / "."):
        return (Path(verdict.target[0]) / wanted).as_posix()
    return PurePosixPath(wanted).as_posix()


def as_uri(path: str) -> str:
    """Return a path as a relative or `file:` URI reference.

    >>> as_uri("my models/a b.pt")
    'my%20models/a%20b.pt'
    """
    if path.startswith("/"):
        return "file://" + quote(path, errors="surrogateescape")
    # A colon in the first part would be read as a scheme.
    return quote(path, safe="/", errors="surrogateescape")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False

"""Every file of a folder, for a comparison that must not leave one out."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from everybit.core.errors import PathError


@dataclass(slots=True, kw_only=True)
class Tree:
    """What a folder holds.

    Attributes:
        files: Regular files, and links to them, by relative path.
        unread: What was not followed or is no file: `{relative path: why}`.
    """

    files: dict[str, Path] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)


def walk_tree(folder: Path) -> Tree:
    """List every file below a folder, hidden ones too.

    Links to files are followed, links to folders are not: they are told.

    Raises:
        PathError: A folder cannot be read.
    """
    out = Tree()

    def refuse(error: OSError) -> None:
        raise PathError.from_os_error(error, error.filename or folder) from error

    for root, folders, names in os.walk(folder, onerror=refuse):
        for name in sorted((*folders, *names)):
            place = Path(root) / name
            relative = place.relative_to(folder).as_posix()
            if name in folders:
                if place.is_symlink():
                    out.unread[relative] = "a link to a folder, which is not followed"
                continue
            try:
                regular = stat.S_ISREG(place.stat().st_mode)
            except OSError:
                out.unread[relative] = "a link that leads nowhere or in a circle"
                continue
            if regular:
                out.files[relative] = place
            else:
                out.unread[relative] = "no regular file"
    out.files = dict(sorted(out.files.items()))
    return out

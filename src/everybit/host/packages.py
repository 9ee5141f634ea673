"""Installed packages: version, and a digest of what the installer put there.

Two builds can carry one version. A package's RECORD lists the digest of every file of it; a digest
of the RECORD tells the builds apart. What depends on the place or on the installer (byte code,
scripts with the environment's path in their first line, the installer's own notes) is left out, so
that the same build in two environments has the same digest.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_INFO: Final = re.compile(r"^(?P<name>.+?)-(?P<version>[^-]+)\.(?:dist|egg)-info$")
# Files of the `.dist-info` folder that the installer writes, and not the build.
_INSTALLER: Final = frozenset(
    {b"RECORD", b"RECORD.jws", b"RECORD.p7s", b"INSTALLER", b"REQUESTED", b"direct_url.json"}
)


def read_packages(search: Iterable[str] | None = None) -> dict[str, Any]:
    """Return `{name: {"version", "record"}}` of every installed distribution.

    Args:
        search: Folders to look in; `sys.path` where None. The first of a name wins, as it does for
            imports. `record` is missing where the distribution has no RECORD; `editable` says that
            its code lies elsewhere and no digest covers it.
    """
    found: dict[str, Any] = {}
    for folder in dict.fromkeys(sys.path if search is None else search):
        try:
            entries = sorted(Path(folder or ".").iterdir())
        except OSError:
            continue
        for entry in entries:
            match = _INFO.match(entry.name)
            if match:
                name = re.sub(r"[-_.]+", "-", match["name"]).lower()
                found.setdefault(name, _read(entry, match["version"]))
    return dict(sorted(found.items()))


def _read(info: Path, version: str) -> dict[str, Any]:
    facts: dict[str, Any] = {"version": version}
    with contextlib.suppress(OSError):
        facts["record"] = digest_of_record((info / "RECORD").read_bytes(), info.name)
    if _is_editable(info):
        facts["editable"] = True
    return facts


def digest_of_record(record: bytes, info_name: str) -> str:
    """Return 16 hex digits over the lines of a RECORD that the build determines.

    Args:
        record: The file's content.
        info_name: Name of its `.dist-info` folder.
    """
    prefix = info_name.encode() + b"/"
    kept = []
    for line in record.splitlines():
        path = line.split(b",", 1)[0].strip(b'"')
        installed = path.startswith(prefix) and (
            path[len(prefix) :] in _INSTALLER or path[len(prefix) :].startswith(b"uv_")
        )
        if not (installed or path.startswith(b"..") or path.endswith(b".pyc")):
            kept.append(line.strip())
    return hashlib.sha256(b"\n".join(sorted(kept))).hexdigest()[:16]


def _is_editable(info: Path) -> bool:
    try:
        told = json.loads((info / "direct_url.json").read_bytes())
        return bool(told.get("dir_info", {}).get("editable"))
    except (OSError, ValueError, AttributeError):
        return False

"""NCCL's own configuration files: settings that no environment variable shows."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from everybit.host.argv import looks_secret, without_passwords

if TYPE_CHECKING:
    from collections.abc import Mapping

_SETTING: Final = re.compile(r"\s*(NCCL_[A-Z0-9_]+)\s*=\s*(.*?)\s*")
_SYSTEM: Final = Path("/etc/nccl.conf")
_FILE_VARIABLE: Final = "NCCL_CONF_FILE"


def read_nccl(environ: Mapping[str, str] | None = None, system: Path = _SYSTEM) -> dict[str, Any]:
    """Return the settings of the files, the user's over the system's.

    NCCL reads `/etc/nccl.conf`, then `~/.nccl.conf` or the file that `NCCL_CONF_FILE` names.
    Variables win over both; they stand in the section `variables`.
    """
    variables = os.environ if environ is None else environ
    own = variables.get(_FILE_VARIABLE) or Path(variables.get("HOME", "")) / ".nccl.conf"
    found: dict[str, Any] = {}
    for path in (system, Path(own)):
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            match = _SETTING.fullmatch(line.partition("#")[0])
            if match and not looks_secret(match[1]):
                found[match[1]] = without_passwords(match[2])
    return dict(sorted(found.items())) or {"absent": "no configuration file of NCCL"}

"""Shell scripts, YAML, Dockerfiles and `.env` files as lines: where variables are set."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SHELLS: Final = re.compile(rb"^#!.*\b(?:ba|da|z|k|fi)?sh\b")
_SUFFIXES: Final = {
    ".sh": "shell", ".bash": "shell", ".zsh": "shell", ".ksh": "shell", ".fish": "shell",
    ".slurm": "shell", ".sbatch": "shell", ".pbs": "shell", ".yml": "yaml", ".yaml": "yaml",
    ".env": "env", ".envrc": "shell", ".dockerfile": "dockerfile", ".containerfile": "dockerfile",
    ".toml": "toml", ".ini": "ini", ".cfg": "ini", ".service": "ini",
}  # fmt: skip


class Kind(StrEnum):
    """What a text file is."""

    SHELL = "shell"
    YAML = "yaml"
    DOCKERFILE = "dockerfile"
    ENV = "env"
    TOML = "toml"
    INI = "ini"
    MAKEFILE = "makefile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text file that is no Python.

    Attributes:
        path: As findings name it.
        kind: What it is.
        text: Its content.
    """

    path: str
    kind: Kind
    text: str

    @property
    def lines(self) -> Iterator[tuple[int, str]]:
        """The lines with their numbers, from 1; a line that goes on with a backslash stays two."""
        return enumerate(self.text.splitlines(), start=1)


def kind_of(path: Path, first: bytes = b"") -> Kind | None:
    """Return what a file is by its name, or by its first line where it has no suffix.

    >>> from pathlib import Path
    >>> str(kind_of(Path("Dockerfile.cuda")))
    'dockerfile'
    """
    name = path.name.lower()
    if name.startswith(("dockerfile", "containerfile")):
        return Kind.DOCKERFILE
    if name == ".env" or name.startswith(".env."):
        return Kind.ENV
    if name in ("makefile", "gnumakefile") or name.endswith(".mk"):
        return Kind.MAKEFILE
    suffix = _SUFFIXES.get(path.suffix.lower() or f".{name.lstrip('.')}" * name.startswith("."))
    if suffix is not None:
        return Kind(suffix)
    if not path.suffix and _SHELLS.match(first):
        return Kind.SHELL
    return None

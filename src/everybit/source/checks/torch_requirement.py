"""Which torch the project's own metadata asks for: before 2.6 `torch.load` is unsafe by default."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

#: The first version whose `torch.load` has `weights_only=True` by default.
SAFE_SINCE: Final = (2, 6)
_MAX_FILE_BYTES: Final = 1 << 20
#: The first of these that names torch with a version speaks for the project.
_FILES: Final = (
    "pyproject.toml",
    "setup.cfg",
    "setup.py",
    "requirements.txt",
    "environment.yml",
    "environment.yaml",
    "PKG-INFO",
)
_MAX_PARENTS: Final = 12
_MAX_INSTALLED: Final = 2_000

# `torch>=1.8,<2.6` in any of the files; `torch = "^2.1"` as Poetry writes it; `pytorch=1.13`.
_REQUIREMENT: Final = re.compile(
    r"""(?<![\w.\-/])(?:py)?torch\s*(?:\[[^\]]*\])?\s*(?:=\s*(?:\{\s*version\s*=\s*)?["'])?\(?\s*"""
    r"""(?P<specs>(?:(?:[<>=!~]=?=?|\^)\s*\d[\w.*+]*\s*,?\s*)+)"""
)
_SPEC: Final = re.compile(r"(===|==|<=|>=|!=|~=|<|>|=|\^)\s*(\d+(?:\.\d+)*)")

Version = tuple[int, ...]


class Admits(StrEnum):
    """Which versions a requirement lets in."""

    NEW = "2.6 or later"
    BOTH = "older and newer"
    OLD = "before 2.6 only"


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchRequirement:
    """What a project says about its torch.

    Attributes:
        admits: Which versions it lets in.
        text: As it is written.
        file: Where, by name.
    """

    admits: Admits
    text: str
    file: str


def torch_requirement(folder: Path) -> TorchRequirement | None:
    """Return what the project that holds a folder says, None where it names no version.

    Args:
        folder: Where the search begins; it goes upwards to the first folder with metadata.
    """
    here = folder
    below = ""
    for _ in range(_MAX_PARENTS):
        files = [here / name for name in _FILES if (here / name).is_file()]
        files += _installed(here, below)
        for file in files:
            found = read_requirement(_text(file))
            if found is not None:
                text, admits = found
                return TorchRequirement(admits=admits, text=text, file=file.name)
        if files or here == here.parent:
            return None
        below, here = here.name, here.parent
    return None


def _installed(folder: Path, package: str) -> list[Path]:
    """Return the metadata of an installed package, which lies beside it."""
    if not package.isidentifier():
        return []
    found = sorted(folder.glob("*.dist-info/METADATA"))[:_MAX_INSTALLED]
    # A wheel unpacked by itself may hold a package of another name.
    own = [each for each in found if each.parent.name.startswith(f"{package}-")]
    return own[:1] or (found if len(found) == 1 else [])


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            data = opened.read(_MAX_FILE_BYTES)
    except OSError:
        return ""
    lines = data.decode("utf-8", "replace").splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("#"))


def read_requirement(text: str) -> tuple[str, Admits] | None:
    """Return the first requirement of a torch version in a file's text, and what it admits.

    >>> read_requirement('dependencies = ["torch>=1.8,!=2.0", "numpy"]')
    ('torch>=1.8,!=2.0', <Admits.BOTH: 'older and newer'>)
    """
    for match in _REQUIREMENT.finditer(text):
        specs = _SPEC.findall(match["specs"])
        admits = _admits([(sign, _version(number)) for sign, number in specs])
        if admits is not None:
            return "torch" + "".join(match["specs"].split()).rstrip(","), admits
    return None


def _version(text: str) -> Version:
    return tuple(int(part) for part in text.split(".")[:4])


def _admits(specs: list[tuple[str, Version]]) -> Admits | None:
    """Return what some bounds admit; None where they say nothing about 2.6."""
    lowest: Version | None = None
    below: Version | None = None  # exclusive
    for sign, version in specs:
        if sign in (">=", ">", "~=", "^", "==", "===", "="):
            lowest = max(lowest or version, version)
        ends = {
            "<": version,
            "<=": (*version, 0, 1),
            "~=": _next(version[:-1] or version),
            "^": _next(version[:1]),
            "=": _next(version),
            "==": (*version, 0, 1),
            "===": (*version, 0, 1),
        }.get(sign)
        if ends is not None:
            below = min(below or ends, ends)
    if below is not None and below <= SAFE_SINCE:
        return Admits.OLD
    if lowest is None:
        return None
    return Admits.BOTH if lowest < SAFE_SINCE else Admits.NEW


def _next(version: Version) -> Version:
    return (*version[:-1], version[-1] + 1)

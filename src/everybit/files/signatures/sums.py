"""Lists of SHA-256 digests, as `sha256sum` and BSD's `sha256` write them and read them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from everybit.core.atomic import write_atomically
from everybit.files.seals.manifest import OWN_NAMES, SUMS_NAME
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: Names under which such lists lie beside files, in lower case.
LIST_NAMES: Final = ("sha256sums", "sha256sums.txt", "sha256sum.txt")
#: A list for one file: its name with this behind it.
SUFFIX: Final = ".sha256"

_MAX_BYTES: Final = 16 * 1024 * 1024
_GNU: Final = re.compile(rb"(\\?)([0-9a-fA-F]{64}) [ *](.+)")
_BSD: Final = re.compile(rb"(\\?)SHA256 ?\((.+)\) ?= ?([0-9a-fA-F]{64})")
_ALONE: Final = re.compile(rb"([0-9a-fA-F]{64})\s*(?:[ *]?-)?")
_ESCAPES: Final = {b"\\\\": b"\\", b"\\n": b"\n", b"\\r": b"\r"}


@dataclass(slots=True, kw_only=True)
class Sums:
    """What a list says.

    Attributes:
        digests: Digest in lower-case hexadecimal, by path relative to the list's folder.
        alone: The digest of a list that names no file.
        unread: Lines that are none of a list.
    """

    digests: dict[str, str] = field(default_factory=dict)
    alone: str = ""
    unread: int = 0


def parse_sums(data: bytes) -> Sums:
    r"""Read a list; paths that lead out of its folder count as unread.

    >>> parse_sums(b"0" * 64 + b"  ./a b.pt\n").digests == {"a b.pt": "0" * 64}
    True
    >>> parse_sums(b"SHA256 (x) = " + b"A" * 64).digests == {"x": "a" * 64}
    True
    """
    sums = Sums()
    for line in data.split(b"\n"):
        text = line.strip(b"\r")
        if not text.strip() or text.startswith(b"#"):
            continue
        if found := _GNU.fullmatch(text):
            escaped, digest, name = found.groups()
        elif found := _BSD.fullmatch(text):
            escaped, name, digest = found.groups()
        elif found := _ALONE.fullmatch(text.strip()):
            sums.alone = found[1].decode("ascii").lower()
            continue
        else:
            sums.unread += 1
            continue
        if escaped:
            name = re.sub(rb"\\[\\nr]", lambda m: _ESCAPES[m[0]], name)
        path = PurePosixPath(name.decode("utf-8", "surrogateescape"))
        if path.is_absolute() or ".." in path.parts or not path.name or b"\0" in name:
            sums.unread += 1
            continue
        if str(path) == "-":
            sums.alone = digest.decode("ascii").lower()
            continue
        sums.digests[path.as_posix()] = digest.decode("ascii").lower()
    return sums


def read_sums(path: Path) -> Sums:
    """Read a list's file; one too large to be a list says nothing.

    Raises:
        PathError: It cannot be read.
    """
    with ByteSource(path) as source:
        if source.size > _MAX_BYTES:
            return Sums(unread=1)
        return parse_sums(source.read(0, source.size))


def format_sums(digests: Mapping[str, str]) -> bytes:
    """Return a list that `sha256sum -c` accepts."""
    lines = []
    for name in sorted(digests):
        raw = name.encode("utf-8", "surrogateescape")
        safe = raw.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
        mark = b"\\" if safe != raw else b""
        lines.append(mark + digests[name].encode("ascii") + b"  " + safe + b"\n")
    return b"".join(lines)


def write_sums(folder: Path, digests: Mapping[str, str]) -> Path:
    """Write `SHA256SUMS`; what an earlier one says of other files that are there is kept.

    What sealing itself writes changes with every seal, so it is left out.

    Raises:
        PathError: It cannot be written; what was there before is untouched.
    """
    place = folder / SUMS_NAME
    kept: dict[str, str] = {}
    if place.is_file():
        kept = {
            name: digest
            for name, digest in read_sums(place).digests.items()
            if (folder / name).is_file() and PurePosixPath(name).name not in OWN_NAMES
        }
    write_atomically(place, format_sums({**kept, **digests}))
    return place

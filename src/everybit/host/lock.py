"""The packages of this environment as a constraints file that pip reads."""

from __future__ import annotations

import json
import platform
import re
import sys
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final

from everybit.host.packages import digest_of_record

if TYPE_CHECKING:
    from collections.abc import Iterable

_HASH: Final = re.compile(r"[0-9a-f]{64}")
_COMMENT: Final = "# "
#: A version alone would name a release that these are not.
_NOT_PINNED: Final = ("editable", "from a repository", "from a folder")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One installed package.

    Attributes:
        name: Normalised: lower case, hyphens.
        version: Exactly.
        record: 16 hex digits over its RECORD, "" where it has none.
        sha256: Digest of the archive it was installed from, where pip noted it; else "".
        direct: Why a version alone does not bring it back (`editable`, `from an address`), or "".
    """

    name: str
    version: str
    record: str = ""
    sha256: str = ""
    direct: str = ""


def installed() -> list[Pin]:
    """Return every installed package, by name; the first on the path wins, as for imports."""
    found: dict[str, Pin] = {}
    for package in metadata.distributions():
        told = package.metadata
        name = re.sub(r"[-_.]+", "-", told["Name"] or "").lower() if told is not None else ""
        if name and package.version:
            found.setdefault(name, _pin(name, package))
    return [found[name] for name in sorted(found)]


def _pin(name: str, package: metadata.Distribution) -> Pin:
    record = package.read_text("RECORD")
    sha256, direct = _origin(package.read_text("direct_url.json"))
    digest = ""
    if record is not None:
        info = next(
            (
                line.partition("/")[0]
                for line in record.splitlines()
                if ".dist-info/" in line.partition(",")[0]
            ),
            "",
        )
        digest = digest_of_record(record.encode(), info)
    return Pin(name=name, version=package.version, record=digest, sha256=sha256, direct=direct)


def _origin(text: str | None) -> tuple[str, str]:
    """Return the archive's digest, and why a version alone does not bring the package back."""
    try:
        told: Any = json.loads(text) if text else {}
    except ValueError:
        return "", ""
    if not isinstance(told, dict) or not told:
        return "", ""
    archive = told.get("archive_info")
    if isinstance(archive, dict):
        hashes = archive.get("hashes")
        sha256 = str(hashes.get("sha256", "")) if isinstance(hashes, dict) else ""
        return (sha256 if _HASH.fullmatch(sha256) else ""), "from a file"
    editable = isinstance(told.get("dir_info"), dict) and told["dir_info"].get("editable")
    if editable:
        return "", "editable"
    return "", "from a repository" if "vcs_info" in told else "from a folder"


def lock_text(pins: Iterable[Pin]) -> str:
    """Return a constraints file: one exact version a line, no address of any index.

    pip takes hashes for all packages or for none, so they are given as pip's option only where
    every package has one; else as comments. The digest of each RECORD is a comment, which tells
    two builds of one version apart: `everybit env diff` compares it.
    """
    listed = list(pins)
    exact = [pin for pin in listed if pin.direct not in _NOT_PINNED]
    hashed = bool(exact) and all(pin.sha256 for pin in exact)
    lines = [
        "# Written by `everybit env lock`. Use: pip install -c THIS_FILE PACKAGES...",
        f"# python {platform.python_version()}, {sys.platform}, {platform.machine()}",
    ]
    for pin in listed:
        tail = [f"record {pin.record}"] if pin.record else []
        if pin.sha256 and not hashed:
            tail.append(f"sha256 {pin.sha256}")
        if pin.direct:
            tail.append(pin.direct)
        note = f"  {_COMMENT}{', '.join(tail)}" if tail else ""
        if pin.direct in _NOT_PINNED:
            lines.append(f"{_COMMENT}{pin.name}=={pin.version}{note}")
        else:
            option = f" --hash=sha256:{pin.sha256}" if hashed else ""
            lines.append(f"{pin.name}=={pin.version}{option}{note}")
    return "\n".join(lines) + "\n"


def read_lock(text: str) -> dict[str, str]:
    r"""Return `{name: version}` of a lock, as written by `lock_text`.

    >>> read_lock("# python 3.11\nnumpy==2.1.0  # record 00ff\n")
    {'numpy': '2.1.0'}
    """
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = re.match(r"([a-z0-9][a-z0-9-]*)==(\S+)", line)
        if match:
            found[match[1]] = match[2]
    return found

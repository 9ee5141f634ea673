"""Which devices were suspected before, across runs: one line a finding, kept for the user.

A single fault of a device is bad luck; the second one on the same device is a reason to replace it.
Runs are apart in time and place, so what they found is kept in one file of the user's, outside of
any run folder.
"""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

#: Lines of the file that are read, from its end.
MAX_READ: Final = 10_000
_MAX_BYTES: Final = 4 * 1024 * 1024
_NAME: Final = "suspicions.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspicion:
    """One finding that speaks against a device.

    Attributes:
        serial: Of the device: a GPU's UUID, or a host's id.
        core: CPU core, where the process was bound to one or is known to have run there.
        at: When, in UTC, as ISO 8601.
        host: Name of the machine.
        rule: Of the finding.
        verdict: What replay said, "" where it was not asked.
        run: Run folder.
        step: Of the run.
        finding: Its id.
    """

    serial: str
    at: str
    host: str
    rule: str
    run: str
    step: int | None = None
    verdict: str = ""
    core: int | None = None
    finding: str = ""

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Rebuild one; raises `TypeError` for unknown or missing keys."""
        return cls(**data)


def suspicions_folder() -> Path:
    """Return where they are kept unless told otherwise: the user's state folder (XDG)."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "everybit"


class Suspicions:
    """The file of suspicions in a folder.

    Args:
        folder: Where; `suspicions_folder()` for None.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.path = (folder or suspicions_folder()) / _NAME

    def add(self, suspicion: Suspicion) -> None:
        """Append one, readable by its user only; raises `OSError` where that cannot be."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        line = json.dumps(asdict(suspicion), separators=(",", ":")) + "\n"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(self.path, flags, 0o600)
        try:
            os.write(descriptor, line.encode())  # One write: lines of several runs do not mix.
        finally:
            os.close(descriptor)

    def read(self, serial: str | None = None) -> tuple[Suspicion, ...]:
        """Return the last `MAX_READ` ones, the oldest first; lines that are none are passed over.

        Args:
            serial: Only those of this device.
        """
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _MAX_BYTES))
                lines = file.read().splitlines()
        except OSError:
            return ()
        found = [each for line in lines[-MAX_READ:] if (each := _parsed(line)) is not None]
        return tuple(each for each in found if serial is None or each.serial == serial)


def suspicions(
    serial: str | None = None, *, folder: str | os.PathLike[str] | None = None
) -> tuple[Suspicion, ...]:
    """Return which devices were suspected by Guards of this user, the oldest first.

    Args:
        serial: Only those of this device: a GPU's UUID, or `host:...`.
        folder: Where the record is kept; the user's state folder for None.
    """
    return Suspicions(None if folder is None else Path(folder)).read(serial)


def _parsed(line: bytes) -> Suspicion | None:
    try:
        data = json.loads(line)
        return Suspicion.from_json(data) if isinstance(data, dict) else None
    except (ValueError, TypeError):
        return None


def host_serial() -> str:
    """Return the id of this machine: the one systemd or D-Bus gave it, else its name."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        if text:
            return f"host:{text}"
    return f"host:{platform.node()}"


def current_core() -> int | None:
    """Return the CPU core this thread last ran on; None where the system does not tell."""
    try:
        text = Path("/proc/thread-self/stat").read_text(encoding="ascii")
        return int(text.rpartition(")")[2].split()[36])
    except (OSError, ValueError, IndexError):
        return None

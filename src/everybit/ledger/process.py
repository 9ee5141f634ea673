"""Which process writes a log, and whether it still runs."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping


class Liveness(StrEnum):
    """What can be said of the process of a log without an end record."""

    RUNNING = "running"
    GONE = "gone"
    UNSEEN = "unseen"  # it ran on another machine, or in another container


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """A process, so that a later one with the same number is not taken for it.

    Attributes:
        pid: Its number in its own namespace.
        start_ticks: Its start, in clock ticks since boot; None where the system does not tell.
        boot_id: The kernel's identity of the boot; empty where it has none.
        pid_namespace: The namespace that `pid` counts in.
        host: A digest that tells machines apart and names none.
    """

    pid: int
    start_ticks: int | None
    boot_id: str
    pid_namespace: str
    host: str

    @classmethod
    def current(cls) -> Self:
        """Return the identity of this process."""
        pid = os.getpid()
        state = _process_state(pid)
        return cls(
            pid=pid,
            start_ticks=state[1] if state else None,
            boot_id=_read("/proc/sys/kernel/random/boot_id"),
            pid_namespace=_pid_namespace(),
            host=_host(),
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self | None:
        """Rebuild the identity from a log's header; None where it is not whole."""
        values: dict[str, Any] = {name: data.get(name) for name in cls.__slots__}
        if type(values["pid"]) is not int or values["pid"] <= 0:
            return None
        if not all(isinstance(values[name], str) for name in ("boot_id", "pid_namespace", "host")):
            return None
        if values["start_ticks"] is not None and type(values["start_ticks"]) is not int:
            return None
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """Return the entries of a log's header."""
        return asdict(self)

    def liveness(self) -> Liveness:
        """Say whether the process still runs, as seen from here."""
        here = type(self).current()
        if self.host != here.host or not self.boot_id:
            return Liveness.UNSEEN
        if self.boot_id != here.boot_id:
            return Liveness.GONE
        if self.pid_namespace != here.pid_namespace:
            return Liveness.UNSEEN
        state = _process_state(self.pid)
        if state is None:
            return Liveness.UNSEEN if _is_hidden(self.pid) else Liveness.GONE
        if state[0] in "ZX" or state[1] != self.start_ticks:
            return Liveness.GONE
        return Liveness.RUNNING


def _process_state(pid: int) -> tuple[str, int] | None:
    """Return state letter and start in clock ticks (proc(5), `stat`, fields 3 and 22)."""
    # The name in parentheses may hold spaces and parentheses itself.
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    try:
        return fields[0], int(fields[19])
    except (IndexError, ValueError):
        return None


def _is_hidden(pid: int) -> bool:
    """Whether a process is there that `/proc` does not show (another user's, with `hidepid`)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _pid_namespace() -> str:
    with contextlib.suppress(OSError):
        return str(Path("/proc/self/ns/pid").readlink())
    return ""


def _host() -> str:
    name = _read("/etc/machine-id") or platform.node()
    return hashlib.sha256(f"everybit.host/{name}".encode()).hexdigest()[:16]


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""

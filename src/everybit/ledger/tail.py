"""The last intact frame of a log, found from its end: what the next attempt is chained to."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from everybit.ledger.frame import CHECK_BYTES, MAX_PAYLOAD_BYTES, OVERHEAD_BYTES, SYNC
from everybit.ledger.scan import Intact, scan_frames
from everybit.ledger.window import Window

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_FIRST_LOOK_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierLog:
    """What a log's header says of the attempt before it.

    Attributes:
        file: Its file name.
        size_bytes: Its length at that time, a torn frame included.
        sequence: Sequence number of its last intact frame, -1 where it had none.
        check: That frame's checksum, in hexadecimal; empty where it had none.
    """

    file: str
    size_bytes: int
    sequence: int
    check: str

    def to_json(self) -> dict[str, Any]:
        """Return the `previous` member of a log's header."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Any) -> Self | None:
        """Read it back; None where it is none."""
        if not isinstance(data, dict):
            return None
        values: Mapping[str, Any] = data
        kinds = {"file": str, "size_bytes": int, "sequence": int, "check": str}
        if any(type(values.get(name)) is not kind for name, kind in kinds.items()):
            return None
        return cls(**{name: values[name] for name in kinds})


def describe_earlier(path: Path) -> EarlierLog:
    """Return what a new attempt must remember of the log before it; raises `OSError`."""
    with Window(path) as window:
        size = window.size
        last = _last_intact(window)
    return EarlierLog(
        file=path.name,
        size_bytes=size,
        sequence=last.header.sequence if last else -1,
        check=last.check.hex() if last else "",
    )


def _last_intact(window: Window) -> Intact | None:
    look = _FIRST_LOOK_BYTES
    while True:
        start = max(0, window.size - look)
        last: Intact | None = None
        # The first mark in the window begins a frame, unless it lies in one by chance: then the
        # scan goes on.
        for piece in scan_frames(window, window.find(SYNC, start)):
            if isinstance(piece, Intact):
                last = piece
        if last is not None or start == 0:
            return last
        if look > 4 * (MAX_PAYLOAD_BYTES + OVERHEAD_BYTES + CHECK_BYTES):
            return None
        look *= 16

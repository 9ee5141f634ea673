"""A step without its digests: its times, losses and scalars, for those who read a million of them.

Only what `LogReader` has scanned, and found to fit, may be read like this.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from everybit.ledger.payload import PayloadError
from everybit.ledger.step import HAS_SCALARS, HEAD, SKIPPED, TAINTED, scalars_at

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOSS: Final = struct.Struct("<d")


class StepFacts(NamedTuple):
    """The fields of a `StepRecord` but for its tables."""

    step: int
    time_s: float
    duration_s: float
    guard_s: float
    optimizer: str
    skipped: bool
    tainted: bool
    losses: tuple[float, ...]
    scalars: Mapping[str, float]


class FactsDecoder:
    """Decodes steps one after the other; those of a run mostly have the scalars of the one before.

    Names are believed only where they are, byte for byte, those of the step before.
    """

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._fixed: tuple[bytes, ...] = ()
        self._values: struct.Struct | None = None
        self._optimizers: dict[bytes, str] = {}

    def decode(self, payload: memoryview) -> StepFacts:
        """Read a step's payload; raises `PayloadError` where it is none."""
        try:
            step, time_s, duration_s, guard_s, flags, name_bytes, num_losses, _ = HEAD.unpack_from(
                payload
            )
            at = HEAD.size + name_bytes
            name = bytes(payload[HEAD.size : at])
            if num_losses == 1:
                losses = _LOSS.unpack_from(payload, at)
            else:
                losses = struct.unpack_from(f"<{num_losses}d", payload, at)
        except struct.error as error:
            raise PayloadError(f"is shorter than it says ({error})") from error
        scalars = self._scalars(payload, at + 8 * num_losses) if flags & HAS_SCALARS else {}
        return StepFacts(
            step,
            time_s,
            duration_s,
            guard_s,
            self._optimizer(name),
            bool(flags & SKIPPED),
            bool(flags & TAINTED),
            losses,
            scalars,
        )

    def _optimizer(self, name: bytes) -> str:
        known = self._optimizers.get(name)
        if known is None:
            try:
                known = name.decode("utf-8", "surrogatepass")
            except UnicodeDecodeError as error:
                raise PayloadError(f"the optimizer's name is not UTF-8 ({error})") from error
            if len(self._optimizers) < 64:
                self._optimizers[name] = known
        return known

    def _scalars(self, payload: memoryview, at: int) -> dict[str, float]:
        layout = self._values
        if layout is not None and at + layout.size <= len(payload):
            parts = layout.unpack_from(payload, at)
            if parts[::2] == self._fixed:
                return dict(zip(self._names, parts[1::2], strict=True))
        end, scalars = scalars_at(payload, at)
        self._learn(bytes(payload[at:end]), scalars)
        return scalars

    def _learn(self, raw: bytes, scalars: Mapping[str, float]) -> None:
        """Remember the bytes between the values: the number, then each name with its length."""
        pattern, fixed, at = "<", [], 0
        for index, name in enumerate(scalars):
            size = (4 if index == 0 else 0) + 1 + len(name.encode())
            fixed.append(raw[at : at + size])
            pattern += f"{size}sd"
            at += size + 8
        # A name that is there twice would be one value less.
        whole = bool(scalars) and at == len(raw)
        self._names = tuple(scalars) if whole else ()
        self._fixed = tuple(fixed) if whole else ()
        self._values = struct.Struct(pattern) if whole else None

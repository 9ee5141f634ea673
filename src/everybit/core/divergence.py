"""The first value at which two chains part."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everybit.core.finding import Location


class DivergenceKind(StrEnum):
    """What the evidence says the difference is; `unknown` where it says nothing."""

    INIT = "init"
    DATA = "data"
    RNG = "rng"
    CONFIG = "config"
    NOISE = "noise"
    CORRUPTION = "corruption"
    MISSING = "missing"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """Where two chains first hold other bits, and the kind as far as evidence goes."""

    where: Location
    kind: DivergenceKind
    why: str

    def to_json(self) -> dict[str, Any]:
        """Return the `first` object of a diff's verdict."""
        place = dict.fromkeys(("step", "rank", "link", "module"))
        return {**place, **self.where.to_json(), "kind": str(self.kind), "why": self.why}

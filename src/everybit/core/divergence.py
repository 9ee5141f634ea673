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
    """Where two chains first hold other bits, and the kind as far as evidence goes.

    Attributes:
        where: The place.
        kind: What the difference is.
        why: One sentence that says why.
        certainty: What stands behind the kind: `proof`, `strong` or `weak`; "" where not said.
    """

    where: Location
    kind: DivergenceKind
    why: str
    certainty: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the `first` object of a diff's verdict."""
        place = dict.fromkeys(("step", "rank", "link", "module"))
        told = {**place, **self.where.to_json(), "kind": str(self.kind), "why": self.why}
        return told | ({"certainty": self.certainty} if self.certainty else {})

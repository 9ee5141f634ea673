"""NUM510: a GradScaler that only skips."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.detect.place import origin_place, place_of, tell_origin

if TYPE_CHECKING:
    from everybit.core.finding import Finding
    from everybit.core.numbers import Origin, StepNumbers

#: Skips in a row once the scale has been found.
MANY: Final = 8
#: A first search for the scale that goes on below this one finds nothing any more.
LEAST_SCALE: Final = 2.0**-8
#: Skips in a row from the start, where the scale is not known: from 65536 to the least.
MANY_AT_FIRST: Final = 24


@dataclass(slots=True)
class Skips:
    """How many steps in a row one optimizer has skipped."""

    num: int = 0
    first: int = 0
    scale: float = math.nan
    warm: bool = False
    told: bool = False
    origin: Origin | None = None

    def judge(self, numbers: StepNumbers) -> Finding | None:
        """Return a finding once too many steps in a row were skipped."""
        if not numbers.skipped:
            self.num, self.told, self.warm, self.origin = 0, False, True, None
            return None
        if not self.num:
            self.first, self.scale = numbers.step, numbers.scale
            self.origin = numbers.gradient_origin
        self.num += 1
        if self.told or self.num < (MANY if self.warm else self._many_at_first()):
            return None
        self.told = True
        scale = numbers.scale
        falling = f", the scale fell from {self.scale:.6g} to {scale:.6g}" * math.isfinite(scale)
        told = tell_origin(self.origin)
        return rule("NUM510").finding(
            f"{self.num} steps in a row were skipped since step {self.first}: the parameters are "
            f"frozen{falling}{told and '; the first gradients were not finite: '}{told}",
            where=place_of(numbers, Link.UPDATE, step=self.first, **origin_place(self.origin)),
            evidence={
                "first_step": self.first,
                "step": numbers.step,
                "num_skipped": self.num,
                "scale_at_first": _plain(self.scale),
                "scale": _plain(scale),
                "warmed_up": self.warm,
                "origin": self.origin.to_json() if self.origin else None,
            },
        )

    def _many_at_first(self) -> int:
        """Return how many halvings lead from the first scale to the least."""
        if not math.isfinite(self.scale) or self.scale <= 0:
            return MANY_AT_FIRST
        return max(MANY_AT_FIRST, math.ceil(math.log2(self.scale / LEAST_SCALE)))

    def clear(self) -> None:
        """Begin a new phase."""
        self.num, self.told, self.origin = 0, False, None


def _plain(number: float) -> float | None:
    return number if math.isfinite(number) else None

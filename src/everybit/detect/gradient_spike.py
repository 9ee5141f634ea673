"""NUM504: the gradient norm is far outside its own recent band."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.detect.band import Band
from everybit.detect.place import place_of
from everybit.detect.spikes import why_gradient_spike

if TYPE_CHECKING:
    from everybit.core.finding import Finding
    from everybit.core.numbers import StepNumbers

#: Least spread of the log norm: a constant norm is what clipping leaves.
_FLOOR: Final = 0.1


@dataclass(slots=True)
class GradientBand:
    """The band of the log gradient norm of one optimizer's steps."""

    band: Band = field(default_factory=Band)
    largest: float = -math.inf
    norms: dict[str, float] = field(default_factory=dict)

    def doubts(self, numbers: StepNumbers) -> bool:
        """Whether the norm would be a spike; nothing is added."""
        norm = numbers.gradient_norm
        if numbers.skipped or not math.isfinite(norm) or norm <= 0:
            return False
        place = self.band.place(math.log(norm), floor=_FLOOR)
        return place is not None and bool(why_gradient_spike(place, largest=self.largest))

    def judge(self, numbers: StepNumbers) -> Finding | None:
        """Return a finding where the norm is a spike; it joins the band either way."""
        norm = numbers.gradient_norm
        if numbers.skipped or not math.isfinite(norm) or norm <= 0:
            return None
        value = math.log(norm)
        place = self.band.place(value, floor=_FLOOR)
        why = why_gradient_spike(place, largest=self.largest) if place else ""
        if self.band.num_seen < 8:
            self.largest = max(self.largest, value)
        self.band.add(value)
        before = self.norms
        self.norms = dict(zip(numbers.names, numbers.gradient_norms, strict=False))
        if not why or place is None:
            return None
        worst = _most_risen(before, self.norms)
        label = worst[0] if worst else None
        most = f"; most at {label}" if label else ""
        return rule("NUM504").finding(
            f"the gradient norm of step {numbers.step} is {norm:.6g}, usually "
            f"{math.exp(place.median):.6g}: {why}{most}",
            where=place_of(numbers, Link.GRAD, label=label),
            evidence={
                "sensor": True,
                "norm": norm,
                "usual_norm": math.exp(place.median),
                "log": place.to_json(),
                "most_risen": dict([worst]) if worst else {},
                "losses": list(numbers.losses),
            },
        )

    def clear(self) -> None:
        """Begin a new phase."""
        self.band.clear()
        self.largest = -math.inf


def _most_risen(before: dict[str, float], now: dict[str, float]) -> tuple[str, float] | None:
    risen = {
        name: norm / before[name]
        for name, norm in now.items()
        if norm > 0 and before.get(name, 0.0) > 0
    }
    return max(risen.items(), key=lambda item: item[1]) if risen else None

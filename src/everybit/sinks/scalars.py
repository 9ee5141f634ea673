"""The numbers of a step by the names that trackers show."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from everybit.core.observation import StepRecord

PREFIX: Final = "everybit/"


def scalars_of(record: StepRecord) -> dict[str, float]:
    """Return a step's numbers: loss (the mean where there are several), norms, time, overhead.

    Non-finite numbers stay: they are what somebody looks for.
    """
    numbers: dict[str, float] = {}
    if record.losses:
        numbers["loss"] = sum(record.losses) / len(record.losses)
    numbers.update(record.scalars)
    numbers["skipped"] = float(record.skipped)
    own = record.duration_s - record.guard_s
    if math.isfinite(own) and own > 0:
        numbers["step_seconds"] = record.duration_s
        numbers["guard_overhead"] = record.guard_s / own
    return {PREFIX + name: float(value) for name, value in numbers.items()}

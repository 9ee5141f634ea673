"""NUM501: the loss is NaN or infinite before any scaling."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.detect.place import origin_place, place_of, tell_origin

if TYPE_CHECKING:
    from everybit.core.finding import Finding
    from everybit.core.numbers import StepNumbers


def judge_loss(numbers: StepNumbers) -> Finding | None:
    """Return a finding where a loss of the step is not finite, skipped or not."""
    bad = [loss for loss in numbers.losses if not math.isfinite(loss)]
    if not bad:
        return None
    origin = numbers.loss_origin
    told = tell_origin(origin)
    kind = "NaN" if any(math.isnan(loss) for loss in bad) else "infinite"
    evidence = {
        "losses": [str(loss) for loss in numbers.losses],
        "skipped": numbers.skipped,
        "origin": origin.to_json() if origin else None,
    }
    return rule("NUM501").finding(
        f"the loss of step {numbers.step} is {kind}{told and ': '}{told}",
        where=place_of(numbers, Link.LOSS, **origin_place(origin)),
        evidence=evidence,
    )

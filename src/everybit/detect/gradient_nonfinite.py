"""NUM502: gradients are not finite, and the update was not skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.core.change import MAX_LISTED
from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.detect.place import origin_place, place_of, tell_origin

if TYPE_CHECKING:
    from everybit.core.finding import Finding
    from everybit.core.numbers import StepNumbers


def judge_gradients(numbers: StepNumbers) -> Finding | None:
    """Return a finding where gradients are not finite; none where a scaler skipped the step."""
    origin = numbers.gradient_origin
    if origin is None or numbers.skipped:
        return None
    bad = numbers.bad_gradients
    num_seen = sum(norm >= 0 or norm != norm for norm in numbers.gradient_norms)
    return rule("NUM502").finding(
        f"{len(bad)} of {num_seen} gradients are not finite at step {numbers.step}: "
        f"{tell_origin(origin)}",
        where=place_of(numbers, Link.GRAD, **origin_place(origin)),
        evidence={
            "num_bad": len(bad),
            "num_gradients": num_seen,
            "bad": list(bad[:MAX_LISTED]),
            "losses": [str(loss) for loss in numbers.losses],
            "origin": origin.to_json(),
        },
    )

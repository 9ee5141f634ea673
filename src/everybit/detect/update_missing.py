"""NUM505: a parameter moved otherwise than its gradient says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.core.finding import Certainty, Severity
from everybit.core.link import Link
from everybit.core.numbers import Movement, Stillness
from everybit.core.rule import rule
from everybit.detect.place import place_of

if TYPE_CHECKING:
    from everybit.core.finding import Finding
    from everybit.core.numbers import StepNumbers

_WHAT = {
    Stillness.UNMOVED: "had a gradient and did not move",
    Stillness.UNMOVED_LONG: "had a gradient and has not moved, while the rest of its group did",
    Stillness.MOVED_ALONE: "was moved by the update without a gradient",
    Stillness.RATE_ZERO: "has a gradient, and its learning rate fell to zero",
    Stillness.REPLACED: "gets gradients, and no optimizer holds it",
}
#: Kinds that follow from how the optimizer is written, not from a count of steps.
_EXACT = (Stillness.UNMOVED, Stillness.MOVED_ALONE)


def judge_movements(numbers: StepNumbers) -> list[Finding]:
    """Return one finding for each way in which parameters moved wrongly."""
    by_kind: dict[Stillness, list[Movement]] = {}
    for movement in numbers.movements:
        by_kind.setdefault(movement.kind, []).append(movement)
    return [_finding(numbers, kind, found) for kind, found in by_kind.items()]


def _finding(numbers: StepNumbers, kind: Stillness, found: list[Movement]) -> Finding:
    first = found[0]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    detail = f": {first.detail}" if first.detail else ""
    exact = kind in _EXACT
    return rule("NUM505").finding(
        f"{first.parameter}{more} {_WHAT[kind]} at step {first.since}{detail}",
        where=place_of(numbers, Link.UPDATE, label=first.parameter, step=first.since),
        evidence={
            "kind": str(kind),
            "since": first.since,
            "num_parameters": len(found),
            "parameters": [each.parameter for each in found[:16]],
            **first.evidence,
        },
        severity=None if exact else Severity.WARNING,
        certainty=None if exact else Certainty.STRONG,
    )

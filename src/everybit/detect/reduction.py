"""RNK802: a reduced gradient is the same on all ranks, and not the mean of what they sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everybit.core.change import MAX_LISTED
from everybit.core.dtype import json_number
from everybit.core.finding import Certainty, Finding, Location
from everybit.core.link import Link
from everybit.core.observation import split_entry
from everybit.core.rule import rule

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongReduction:
    """One parameter whose reduced gradient is wrong on all ranks alike.

    Attributes:
        parameter: Its name.
        ranks: The ranks that were reduced together.
        element_ranges: `[start, end)` ranges of elements that hold the damage.
        expected: The mean of the sums that the ranks sent, of the worst block.
        found: The sum of what came out.
        bound: How far these may lie apart by rounding.
        culprit: The rank whose part explains it, None where none does.
        what: How its part explains it.
        dtype: Of the gradient.
    """

    parameter: str
    ranks: tuple[int, ...]
    element_ranges: tuple[tuple[int, int], ...]
    expected: float
    found: float
    bound: float
    culprit: int | None
    what: str
    dtype: str


def judge_reduction(wrong: Sequence[WrongReduction], *, step: int) -> list[Finding]:
    """Return a finding a parameter; one for all where they are many.

    Args:
        wrong: What is wrong.
        step: The update that used these gradients.
    """
    if len(wrong) > MAX_LISTED:
        return [_finding(wrong, step)]
    return [_finding([each], step) for each in wrong]


def _finding(group: Sequence[WrongReduction], step: int) -> Finding:
    first = group[0]
    what = first.parameter
    if len(group) > 1:
        what += f" and {len(group) - 1} more parameters"
    message = (
        f"the reduced gradient of {what} at step {step} is not the mean of what the ranks sent: "
        f"a sum of {first.found:.9g} where {first.expected:.9g} was sent, rounding allows for "
        f"{first.bound:.3g}"
    )
    if first.culprit is not None:
        message += f"; the part of rank {first.culprit} {first.what}"
    evidence: dict[str, Any] = {
        "ranks": list(first.ranks),
        "expected": json_number(first.expected),
        "found": json_number(first.found),
        "bound": json_number(first.bound),
        "dtype": first.dtype,
        "num_tensors": len(group),
        "tensors": [each.parameter for each in group[:MAX_LISTED]],
        "explained_by": f"the part of rank {first.culprit} {first.what}" if first.what else "",
    }
    place: dict[str, Any] = dict(split_entry(first.parameter))
    if len(group) == 1:
        place["element_ranges"] = first.element_ranges
    return rule("RNK802").finding(
        message,
        where=Location(step=step, link=Link.REDUCE, rank=first.culprit, **place),
        evidence=evidence,
        certainty=Certainty.STRONG,
    )

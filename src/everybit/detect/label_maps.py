"""DAT414: two maps from labels to numbers contradict each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Location
from everybit.core.link import Link
from everybit.core.rule import rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.core.finding import Finding

#: Labels that contradict, as far as they are named.
MAX_NAMED: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelMap:
    """A map from labels to numbers.

    Attributes:
        owner: Whose it is: `train`, `rank 1`, `the attempt before`.
        attribute: Where the data set holds it, `class_to_idx`.
        numbers: The map.
    """

    owner: str
    attribute: str
    numbers: Mapping[str, int]


def compare_maps(first: LabelMap, second: LabelMap, *, step: int, rank: int) -> Finding | None:
    """Return a finding where labels that both know have other numbers, or numbers other labels.

    A map that knows fewer labels, or more, is no contradiction; nor are two that share none.

    Args:
        first: One map.
        second: The other one, of the same attribute.
        step: Updates finished.
        rank: Rank of the process.
    """
    both = first.numbers.keys() & second.numbers.keys()
    wrong = sorted(label for label in both if first.numbers[label] != second.numbers[label])
    if not wrong or first.attribute != second.attribute:
        return None
    label = wrong[0]
    return rule("DAT414").finding(
        f"{first.attribute} of {second.owner} contradicts that of {first.owner}: {label!r} is"
        f" {second.numbers[label]} there and {first.numbers[label]} here"
        f" ({len(wrong)} of {len(both)} labels)",
        where=Location(step=step, rank=rank, link=Link.BATCH),
        evidence={
            "attribute": first.attribute,
            "owners": [first.owner, second.owner],
            "labels": {
                each: [first.numbers[each], second.numbers[each]] for each in wrong[:MAX_NAMED]
            },
            "num_wrong": len(wrong),
            "num_shared": len(both),
        },
    )

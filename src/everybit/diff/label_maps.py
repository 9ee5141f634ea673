"""Label maps of two runs: the same labels under other numbers are other targets."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from everybit.core.divergence import DivergenceKind
from everybit.core.finding import Certainty
from everybit.core.link import Link
from everybit.diff.environment import Difference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.diff.kind import Judgement
    from everybit.diff.parting import Parting
    from everybit.diff.side import RunSide

#: What the entries of such differences begin with.
SECTION: Final = "labels."
#: Labels with other numbers that are named.
_SHOWN: Final = 8
#: Kinds that say of a loss that nothing on record explains it.
_UNEXPLAINED: Final = (
    DivergenceKind.UNKNOWN,
    DivergenceKind.NOISE,
    DivergenceKind.CORRUPTION,
)


def label_differences(a: RunSide, b: RunSide) -> list[Difference]:
    """Return the label maps that contradict: labels that both runs know and number otherwise.

    A map that knows more labels, or fewer, is no contradiction, nor is one of a single run.
    """
    found = []
    for name, numbers in a.label_maps.items():
        other = b.label_maps.get(name, {})
        wrong = [each for each in numbers if each in other and numbers[each] != other[each]]
        if wrong:
            shown = sorted(wrong)[:_SHOWN]
            found.append(
                Difference(
                    entry=f"{SECTION}{name}",
                    before=_of(shown, numbers),
                    after=_of(shown, other),
                    kind="data",
                )
            )
    return found


def with_labels(
    judged: Judgement, parting: Parting, differences: Sequence[Difference]
) -> Judgement:
    """Name the label map that explains a parting of targets.

    The map numbers the targets, which a model is not given: batches whose bytes differ, and losses
    that differ with equal inputs, come from it; what parts before the loss does not.

    Args:
        judged: What the parting is without it.
        parting: Where the runs part.
        differences: As `label_differences` returned them, among others.
    """
    maps = [each for each in differences if each.entry.startswith(SECTION)]
    of_targets = parting.link is Link.LOSS and judged.kind in _UNEXPLAINED
    if not maps or not (of_targets or judged.kind is DivergenceKind.DATA):
        return judged
    first = maps[0]
    label = next(iter(first.before))
    why = (
        f"the label maps differ: {first.entry.removeprefix(SECTION)} has {label!r} as "
        f"{first.before[label]} in A and as {first.after[label]} in B"
    )
    if of_targets:
        return replace(
            judged,
            kind=DivergenceKind.DATA,
            why=f"{why}; everything recorded before the loss agrees",
            certainty=Certainty.STRONG,
        )
    return replace(judged, why=f"{judged.why}; {why}")


def _of(labels: Sequence[str], numbers: Mapping[str, int]) -> dict[str, int]:
    return {label: numbers[label] for label in labels}

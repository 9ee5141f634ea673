"""Samples that part after the values have: noise from the first step on hides other data."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from everybit.diff.samples import tell_samples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.core.samples import SampleRecord
    from everybit.diff.samples import SampleStory
    from everybit.diff.side import RankSide


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterSamples:
    """The first step at which the samples part, behind the first value that does.

    Attributes:
        step: The step.
        story: What sets its batches apart.
    """

    step: int
    story: SampleStory

    def told(self) -> str:
        """Return one clause for the reason of what parts first."""
        return f"later, at step {self.step}, the samples part too: {self.story.why}"

    def to_json(self) -> dict[str, Any]:
        """Return it for the evidence."""
        told = {"step": self.step, "kind": str(self.story.kind), "why": self.story.why}
        return told if self.story.sample is None else {**told, "sample": self.story.sample}


def later_samples(a: RankSide, b: RankSide, *, after: int) -> LaterSamples | None:
    """Return the first step behind `after` that took other samples in B than in A.

    What a loader delivers is no computed value: rounding that differs from the first step on does
    not reach it, so it can be compared behind the first value that parts.

    Args:
        a: A rank of A, or all of its ranks as one.
        b: Of B.
        after: The step at which values part.
    """
    if a.samples is None or b.samples is None:
        return None
    others = _by_step(b.samples())
    ahead = next(others, None)
    for step, mine in _by_step(a.samples()):
        while ahead is not None and ahead[0] < step:
            ahead = next(others, None)
        if ahead is None:
            return None
        if step <= after or ahead[0] != step:
            continue
        story = tell_samples(mine, ahead[1])
        if story is not None and story.differs:
            return LaterSamples(step=step, story=story)
    return None


def _by_step(records: Any) -> Iterator[tuple[int, list[SampleRecord]]]:
    training = (each for each in records if each.step >= 0)
    for step, group in groupby(training, key=lambda each: each.step):
        yield step, list(group)

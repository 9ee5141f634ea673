"""The step at which two records of a rank part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from everybit.core.link import Link

if TYPE_CHECKING:
    from everybit.core.observation import StepRecord
    from everybit.diff.link_difference import LinkDifference
    from everybit.diff.resume import Forgotten


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """The step of one rank at which two records first hold other values.

    Attributes:
        rank: The rank.
        step: The step.
        differences: Every link of that step that differs, the one to name first in front.
        missing_in: `A` or `B` where that side has no record of the step at all.
        losses: Of A and B in that step.
        resumed: Of initial values: the sides that began with a state that earlier steps left (`A`,
            `B`, `AB`).
        forgotten: Of initial values: the side that has the other's weights of a later step without
            its optimizer state.
        tainted: Whether A and B marked the step as computed with damaged bits.
        records: What A and B recorded of the step, where it is one.
        traced: Whether the calls of modules are on record in both, and those before `differences`
            agree.
    """

    rank: int
    step: int
    differences: tuple[LinkDifference, ...] = ()
    missing_in: str = ""
    resumed: str = ""
    forgotten: Forgotten | None = None
    losses: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())
    tainted: tuple[bool, bool] = (False, False)
    records: tuple[StepRecord, StepRecord] | None = None
    traced: bool = False

    @property
    def first_name(self) -> str:
        """The name in A's record of the first value that differs; "" where no digest does."""
        if not self.differences or not self.differences[0].differing:
            return ""
        return self.differences[0].differing[0][0]

    @property
    def link(self) -> Link:
        """The link to name."""
        return self.differences[0].link if self.differences else Link.STATE

    @property
    def order(self) -> tuple[int, int, int]:
        """The key that sorts partings of several ranks in causal order."""
        return (self.step, -1 if self.missing_in else self.link.position, self.rank)

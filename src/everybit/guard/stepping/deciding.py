"""When a step is accepted: what one rank wants done with its computations so far."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

from everybit.core.link import Link
from everybit.guard.stepping.trace import first_difference

if TYPE_CHECKING:
    from everybit.guard.stepping.plan import Plan

#: Computations that have to agree before the first mismatch of a run is believed.
_FIRST_ALIKE: Final = 3
#: Steps in a row of which no two computations agree, before it is left at that.
_MAX_UNLIKE: Final = 2


class Wish(IntEnum):
    """What a rank wants done with a step; the highest of all ranks is done."""

    ACCEPT = 0
    REPEAT = 1
    FIRST = 2


class Witness:
    """Knows whether steps of this run have repeated, and what follows for the next one.

    Attributes:
        num_exact: Steps that have repeated exactly.
        given_up: Why steps are not computed twice any more, "" while they are.
    """

    def __init__(self) -> None:
        self.num_exact = 0
        self.given_up = ""
        self._num_unlike = 0

    def note_alike(self) -> None:
        """Take note of a step that has repeated."""
        self.num_exact += 1
        self._num_unlike = 0

    def note_unlike(self) -> None:
        """Take note of a step of which no two computations agree."""
        self._num_unlike += 1
        if self._num_unlike >= _MAX_UNLIKE:
            self.given_up = "it does not repeat: no two computations of a step agree"

    def wish(self, plan: Plan) -> Wish:
        """Return what is to be done with a step, as far as this rank knows."""
        last, count = plan.last, len(plan.attempts)
        if count == 1:
            return Wish.REPEAT if last.is_suspect else Wish.ACCEPT
        if self._draws_itself(plan):
            return Wish.FIRST
        if last.is_damaged:
            return Wish.REPEAT
        alike = plan.num_like_last
        if alike == count:
            return Wish.ACCEPT
        damaged = sum(each.is_damaged for each in plan.attempts)
        if self.num_exact or damaged:
            return Wish.ACCEPT if alike > 1 or self._does_not_repeat(plan) else Wish.REPEAT
        if count >= _FIRST_ALIKE and alike == 1:
            return Wish.ACCEPT  # It does not repeat at all.
        return Wish.ACCEPT if alike >= _FIRST_ALIKE else Wish.REPEAT

    def _does_not_repeat(self, plan: Plan) -> bool:
        return bool(self.given_up) and not plan.replayed

    def _draws_itself(self, plan: Plan) -> bool:
        """Whether the second computation of a run's first test was given another batch."""
        if self.num_exact or len(plan.attempts) != 2:
            return False
        first, second = plan.attempts
        if second.error is not None and first.error is None:
            raised = type(second.error).__name__
            self.given_up = f"computing the first step again raised {raised}: it draws its batch?"
            return True
        if first.trace is None or second.trace is None:
            return False
        event, _ = first_difference(first.trace, second.trace)
        if event is None or event.key[0] is not Link.BATCH:
            return False
        self.given_up = "the step's function draws its batch itself: give it as an argument"
        return True

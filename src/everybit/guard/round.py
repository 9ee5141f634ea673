"""One round of the ranks' agreement: an all-reduce of five integers."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import torch

#: Wishes are below this; multiples of it count how many were fulfilled before.
WISHES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came out of a round, the same on every rank.

    Attributes:
        highest: The highest wish, with how many were fulfilled when it was made.
        first_step: The lowest step that a rank was at.
        last_step: The highest.
        leaving: Some rank came for the last time.
        all_seen: All ranks knew, when they began this round, that there is a wish.
    """

    highest: int
    first_step: int
    last_step: int
    leaving: bool
    all_seen: bool

    def wish(self, fulfilled: int) -> int:
        """Return the highest wish made since the last one was fulfilled, 0 for none."""
        return max(self.highest - WISHES * fulfilled, 0)


class Round:
    """A round under way.

    Args:
        number: From 1, the same on all ranks.
        step: What this rank is at.
        wish: What it wants done, 0 for nothing.
        fulfilled: How many wishes were fulfilled before.
        seen: This rank knows that there is a wish.
        leaving: It comes to no more rounds.
    """

    def __init__(
        self, *, number: int, step: int, wish: int, fulfilled: int, seen: bool, leaving: bool
    ) -> None:
        self.number = number
        self.leaving = leaving
        lanes = [WISHES * fulfilled + wish, step, -step, int(leaving), -int(seen)]
        self._tensor = torch.tensor(lanes, dtype=torch.int64, device="cpu")
        self._work: Any = None

    def launch(self, group: Any) -> None:
        """Send it on its way; a second time does nothing."""
        if self._work is None:
            options: Any = torch.distributed.AllreduceOptions()
            options.reduceOp = torch.distributed.ReduceOp.MAX
            self._work = group.allreduce([self._tensor], options)

    @property
    def is_completed(self) -> bool:
        """Whether all ranks came to it, or it failed."""
        return self._work is not None and bool(self._work.is_completed())

    def wait(self, timeout_s: float) -> None:
        """Wait for it without asking again and again, which would cost as much as the round."""
        if self._work is not None:
            with contextlib.suppress(RuntimeError):  # Not in time, or failed: `outcome` tells.
                self._work.wait(timedelta(seconds=timeout_s))

    def outcome(self) -> Outcome:
        """Return what came out of a completed round.

        Raises:
            RuntimeError: It failed: a rank died, or the network did.
        """
        self._work.wait()
        highest, last, first, leaving, seen = self._tensor.tolist()
        return Outcome(
            highest=highest,
            first_step=-first,
            last_step=last,
            leaving=bool(leaving),
            all_seen=seen == -1,
        )

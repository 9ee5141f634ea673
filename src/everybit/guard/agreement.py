"""All ranks decide alike: a verdict taken on one rank alone would hang the next collective.

At the start of an update each rank says what it wants done (`agree`), and all come to the same
answer at the same step. A round is one all-reduce of a few integers over a group of the Guard's
own; its outcome is the same on every rank, since all ranks make the same rounds in the same order.
What some rank wants is acted on only after a second round in which every rank says that it knows:
a rank that came too late to hear of it would go on alone otherwise.

A rank is waited for with patience, and once: while it is late the others go on with their answer
unknown, the rounds stay in order, and agreement is there again when it has caught up. A rank that
died, or that is not watched, ends the agreement. Nobody acts alone then, and the verdict says so.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from everybit.core.verdict import Checked, Coverage, Skipped
from everybit.guard.meeting import Meeting, Search, job_ranks, tell_ranks
from everybit.guard.policy import LOGGER
from everybit.guard.round import Round

#: Rounds that may be under way while a rank is late; with more it is given up.
MAX_PENDING: Final = 10_000
#: Late steps that the coverage names one by one.
MAX_TOLD: Final = 8
#: Rounds of one step in which ranks may catch up with one another.
_MAX_ROUNDS: Final = 8
#: A rank that is not late comes within this.
_FIRST_WAIT_S: Final = 0.1
_SLEEP_S: Final = 5e-3
_LEAST_PATIENCE_S: Final = 0.02
_LEFT: Final = "this rank left"


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """What the ranks came to.

    Attributes:
        value: The most that any rank wants; the same on all ranks where it is known.
        known: Whether all ranks came to it. If not, nothing may be done that other ranks have to
            do too.
    """

    value: int
    known: bool


class Agreement:
    """Agreement of all ranks of the job, or of this process with itself where it is alone.

    Args:
        settings: What has to be the same on all ranks, as text.
        patience_s: How long to wait for a late rank.

    Attributes:
        num_agreed: How often all ranks agreed.
        ended: Why they never will again, else "".
    """

    def __init__(self, settings: str, patience_s: float = 10.0) -> None:
        self.num_agreed = 0
        self.ended = ""
        self._settings = settings
        self._patience_s = patience_s
        self._meeting: Meeting | None = None
        self._pending: list[Round] = []
        self._num_begun = 0
        self._late: list[Skipped] = []
        self._num_late = 0
        self._num_missed = 0
        self._search: Search | None = None
        self._apart = ""
        self._wish = 0
        self._due = 0
        self._seen = False
        self._fulfilled = 0

    def agree(self, wanted: int, step: int) -> Agreed:
        """Say what this rank wants, and hear what to do; call it at the same steps on all ranks.

        A wish is kept until it has been agreed on.

        Args:
            wanted: 0 for nothing, up to 15; the highest wins.
            step: Of the update that is about to begin.
        """
        self._wish = max(self._wish, wanted)
        if self._meeting is None:
            if job_ranks()[1] == 1:
                wish, self._wish = self._wish, 0
                return Agreed(value=wish, known=True)
            self._meeting = Meeting(self._settings, 0.9 * self._patience_s)
        self._drain()
        for _ in range(_MAX_ROUNDS):
            if self._due:
                due, self._due = self._due, 0
                self.num_agreed += 1
                return Agreed(value=due, known=True)
            if self.ended:
                break
            self._begin(step)
            if self._await(self._patience_s * 0.5**self._num_missed):
                self._tell_late(step)
                break
            if not (self._seen or self._due or self.ended):
                self.num_agreed += 1
                return Agreed(value=0, known=True)
        return Agreed(value=self._wish, known=False)

    def leave(self, wanted: int = 0) -> int:
        """Come to no more rounds, and tell the others, so that they do not wait for this rank.

        Args:
            wanted: As in `agree`.

        Returns:
            What some rank still wanted, where all of them leave now; else this rank's own wish.
            Nothing is waited for longer than a second.
        """
        self._wish = max(self._wish, wanted)
        if self._meeting is None:
            return self._wish
        if not self.ended and not self._drain() and self._meeting.group is not None:
            self._begin(0, leaving=True)
            self._await(min(self._patience_s, 1.0))
        wish = max(self._wish, self._due)
        self.part()
        return wish

    def part(self) -> None:
        """Let go of the group, and tell nobody."""
        if self._meeting is not None:
            self._end(_LEFT)

    def coverage(self) -> Coverage:
        """Return how often the ranks agreed, and when they did not."""
        if self._meeting is None:
            return Coverage()
        what = "agreement of all ranks"
        skipped = list(self._late)
        more = self._num_late - len(skipped)
        if more > 0:
            skipped.append(Skipped(what=f"{what} at {more} more steps", why="a rank was late"))
        if self.ended not in ("", _LEFT):
            skipped.append(Skipped(what=what, why=self.ended))
        elif self._apart:
            skipped.append(Skipped(what=what, why=self._apart))
        checked = (Checked(what="agreements of all ranks", count=self.num_agreed),)
        return Coverage(checked=checked, skipped=tuple(skipped))

    def _begin(self, step: int, *, leaving: bool = False) -> None:
        """Begin a round, once the ranks have met."""
        self._num_begun += 1
        self._pending.append(
            Round(
                number=self._num_begun,
                step=step,
                wish=self._wish,
                fulfilled=self._fulfilled,
                seen=self._seen,
                leaving=leaving,
            )
        )
        if len(self._pending) > MAX_PENDING:
            self._end(f"a rank was late for more than {MAX_PENDING} steps")

    def _await(self, patience_s: float) -> bool:
        """Wait for the rounds that were begun; whether one is still under way."""
        began = time.monotonic()
        if self._drain() and not self._due:
            self._pending[-1].wait(min(patience_s, _FIRST_WAIT_S))
        while self._drain() and not self._due:
            waited_s = time.monotonic() - began
            if waited_s >= max(patience_s, _LEAST_PATIENCE_S):
                return True
            if self._search is None and waited_s > patience_s / 4 and self._meeting:
                self._search = self._meeting.find_late(self._pending[0].number)
            time.sleep(_SLEEP_S)
        self._num_missed = 0
        if self._search is not None:
            self._search.cancel()
            self._search = None
        return False

    def _drain(self) -> bool:
        """Take in what came out of the rounds, in order; whether one is still under way."""
        assert self._meeting is not None
        if self._meeting.failure:
            self._end(self._meeting.failure)
        if self._meeting.group is not None:
            for each in self._pending:
                each.launch(self._meeting.group)
        while self._pending and self._pending[0].is_completed:
            try:
                self._take(self._pending.pop(0))
            except RuntimeError as error:
                self._end(f"a rank is gone, or cannot be reached ({_reason(error)})")
        return bool(self._pending)

    def _take(self, ended: Round) -> None:
        outcome = ended.outcome()
        wish = outcome.wish(self._fulfilled)
        if outcome.leaving:
            self._wish = max(self._wish, wish)
            if not ended.leaving:
                self._end("a rank left the run before this one did")
            return
        if wish and outcome.all_seen:
            self._due, self._wish, self._seen = wish, 0, False
            self._fulfilled += 1
        elif wish:
            self._wish, self._seen = max(self._wish, wish), True
        elif outcome.first_step != outcome.last_step and not self._pending:
            steps = f"{outcome.first_step} and {outcome.last_step}"
            self._apart = f"ranks counted different steps ({steps})"

    def _tell_late(self, step: int) -> None:
        """Note that a rank is late; while it goes on being late, waiting for it gets shorter."""
        self._num_late += 1
        self._num_missed += 1
        if self._num_missed > 1 or len(self._late) >= MAX_TOLD:
            return
        search, self._search = self._search, None
        late = tell_ranks(search.late(timeout_s=1.0) if search is not None else [])
        why = f"{late} late: no answer within {self._patience_s:g} s"
        LOGGER.warning("everybit: %s at step %d; the job goes on", why, step)
        self._late.append(Skipped(what=f"agreement of all ranks at step {step}", why=why))

    def _end(self, why: str) -> None:
        if not self.ended:
            self.ended = why
            if self.ended != _LEFT:
                LOGGER.warning("everybit: the ranks can agree no more: %s", why)
        if self._meeting is not None:
            self._meeting.part(pending=bool(self._pending))
        self._pending.clear()


def _reason(error: RuntimeError) -> str:
    """Return what gloo says, without the places in its source and its advice."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rpartition(".cc:")[2].partition("] ")[2].partition(". ")[0] or lines[0][:200]

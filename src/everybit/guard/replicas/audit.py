"""The ring audit: each rank computes its neighbour's call again, a third settles two.

A device that is always wrong repeats its own error, and replay at home finds nothing. Another rank
holds the same weights: given the same call it has to give the same bits.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from everybit.core.verdict import Checked, Coverage, Skipped
from everybit.detect.ring_audit import Audited, judge_audit
from everybit.guard.capsule.content import NotPlainError
from everybit.guard.replay.compare import compare
from everybit.guard.replay.repeat import CannotRepeatError
from everybit.guard.replicas.parcel import Parcel, digest_of, pack_call, repeat_parcel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from everybit.core.finding import Finding
    from everybit.guard.replay.record import CallRecord
    from everybit.guard.replicas.board import Board

#: Audited is each replayed step where steps are replayed as often as this, else one in four.
_OFTEN: Final = 8
_ONE_IN: Final = 4
#: A neighbour is waited for so long, and so many times as long as packing took.
_WAIT_S: Final = 2.0
_POLL_S: Final = 1e-3


@dataclass(frozen=True, eq=False)
class _Said:
    """What a rank has said of its neighbour's call.

    Attributes:
        digest: Of what it gave here; 0 where it was not made.
        differs: It gave something else than there.
        why: Why it was not made, else "".
    """

    digest: int
    differs: bool
    why: str

    def to_bytes(self) -> bytes:
        return json.dumps([self.digest, self.differs, self.why]).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> _Said:
        return cls(*json.loads(data))


class RingAudit:
    """Audits of one rank.

    Args:
        every: Cadence of replay, in checked steps; 0 for never.

    Attributes:
        num_audited: Calls of the neighbour that were made again here.
    """

    def __init__(self, every: int) -> None:
        self.num_audited = 0
        self._every = every if every <= _OFTEN else every * _ONE_IN
        self._taken: tuple[CallRecord, Parcel | str] | None = None
        self._wanted = False
        self._skipped: Counter[str] = Counter()
        self._agreed: set[int] = set()

    def look_at(self, num_steps: int) -> bool:
        """Whether the step, the so-manyeth checked one, is audited; takes its first call if so."""
        self._wanted = self._every > 0 and num_steps % self._every == 0
        self._taken = None
        return self._wanted

    def take(self, record: CallRecord) -> Sequence[Finding]:
        """Take a call that has just repeated exactly at home; finds nothing by itself."""
        if self._wanted and self._taken is None:
            try:
                self._taken = record, pack_call(record)
            except NotPlainError as error:
                self._taken = record, f"{error} has no plain form, or is too large to send"
        return ()

    @property
    def is_pending(self) -> bool:
        """Whether the step is audited, and was not yet."""
        return self._wanted

    def run(
        self, board: Board, ranks: Sequence[int], rank: int, *, step: int, patience_s: float
    ) -> list[Finding]:
        """Audit the step with the other ranks; call it on all of them.

        Args:
            board: Where the ranks put their notes.
            ranks: The ranks that hold copies of the model.
            rank: This process's.
            step: The update.
            patience_s: Never wait longer for a rank.
        """
        self._wanted = False
        taken, self._taken = self._taken, None
        topic = f"audit/{step}"
        if taken is None or isinstance(taken[1], str):
            board.put(f"{topic}/call", b"")
            board.put(f"{topic}/said", _Said(0, False, "it has no call to compare").to_bytes())
            why = "replay had no exact repeat of it"
            self._skipped[str(taken[1]) if taken else why] += 1
            return []
        own, mine = taken[0], taken[1]
        ring = _Ring(board, topic, list(ranks), rank, min(patience_s, _WAIT_S))
        board.put(f"{topic}/call", mine.to_bytes())
        said, found = self._of_neighbour(ring, own)
        board.put(f"{topic}/said", said.to_bytes())
        if said.why:
            self._skipped[said.why] += 1
        elif not said.differs:
            self._agreed.add(ring.before)
        if len(ranks) > 2:
            self._settle_others(ring, own)
        if found is None:
            return []
        third = ring.fetch("third", ring.after) if len(ranks) > 2 else None
        if third and int(third.decode()) == found.theirs:
            # This rank is wrong. Where the one behind says so too, that one tells.
            of_mine = ring.fetch("said", ring.after)
            if of_mine is not None and _Said.from_bytes(of_mine).differs:
                return []
        audited = Audited(
            step=step,
            owner=ring.before,
            auditor=rank,
            third=ring.after if third else None,
            digests=(found.theirs, found.mine, int(third.decode()) if third else 0),
            agreed_before=ring.before in self._agreed,
            link=found.link,
            module=found.module,
            operation=found.operation,
        )
        return [judge_audit(audited)]

    def coverage(self) -> Coverage:
        """Return how many calls of a neighbour were made again, and which were not."""
        checked: tuple[Checked, ...] = ()
        if self.num_audited:
            checked = (Checked(what="calls of another rank computed here", count=self.num_audited),)
        skipped = tuple(
            Skipped(what=f"{count} calls of another rank here", why=why, promised=False)
            for why, count in self._skipped.items()
        )
        return Coverage(checked=checked, skipped=skipped)

    def _of_neighbour(self, ring: _Ring, own: CallRecord) -> tuple[_Said, _Found | None]:
        data = ring.fetch("call", ring.before)
        if data is None:
            return _Said(0, False, "the other rank was late"), None
        if not data:
            return _Said(0, False, "the other rank had no exact repeat of it"), None
        parcel = Parcel.from_bytes(data)
        try:
            record, repeated = repeat_parcel(parcel, own)
        except CannotRepeatError as error:
            return _Said(0, False, str(error)), None
        self.num_audited += 1
        digest = digest_of(repeated, record)
        difference = compare(record, repeated)
        if difference is None:
            return _Said(digest, False, ""), None
        found = _Found(
            parcel.digest, digest, str(difference.link), difference.module, difference.operation
        )
        return _Said(digest, True, ""), found

    def _settle_others(self, ring: _Ring, own: CallRecord) -> None:
        """Make the call over which the two ranks before this one differ."""
        data = ring.fetch("said", ring.before)
        if data is None or not _Said.from_bytes(data).differs:
            return
        call = ring.fetch("call", ring.two_before)
        digest = 0
        if call:
            try:
                record, repeated = repeat_parcel(Parcel.from_bytes(call), own)
                digest = digest_of(repeated, record)
            except CannotRepeatError as error:
                self._skipped[str(error)] += 1
        ring.board.put(f"{ring.topic}/third", str(digest).encode())


@dataclass(frozen=True, eq=False)
class _Found:
    theirs: int
    mine: int
    link: str
    module: str
    operation: str


@dataclass(frozen=True, eq=False)
class _Ring:
    board: Board
    topic: str
    ranks: list[int]
    rank: int
    wait_s: float

    @property
    def before(self) -> int:
        return self.ranks[self.ranks.index(self.rank) - 1]

    @property
    def two_before(self) -> int:
        return self.ranks[self.ranks.index(self.rank) - 2]

    @property
    def after(self) -> int:
        return self.ranks[(self.ranks.index(self.rank) + 1) % len(self.ranks)]

    def fetch(self, what: str, rank: int) -> bytes | None:
        """Return a rank's note; None where it does not come in time."""
        topic = f"{self.topic}/{what}"
        return (
            self.board.get(topic, rank)
            if wait_for(lambda: self.board.has(topic, [rank]), self.wait_s)
            else None
        )


def wait_for(is_there: Callable[[], bool], at_most_s: float) -> bool:
    """Wait until something is there; whether it is."""
    deadline = time.monotonic() + at_most_s
    while not is_there():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True

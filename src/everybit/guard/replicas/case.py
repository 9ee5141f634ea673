"""Copies that may have parted: the ranks look into one step's digests together.

Each rank puts up its digests. From these all decide alike which copies parted and who is wrong.
The lowest rank that is right puts up the sums of its copies; a rank that is wrong places its damage
by them, asks for the bytes of blocks that the sums do not determine where it is to heal, and tells.
Nobody waits in here: `advance` goes as far as the notes that are there allow.
"""

from __future__ import annotations

import json
import time
from enum import IntEnum
from typing import TYPE_CHECKING, Final

import numpy as np

from everybit.core.damage import Role
from everybit.detect.replicas import PartedCopies, judge_replicas
from everybit.guard.replicas.copies import owner_of
from everybit.guard.replicas.layout import Layout
from everybit.guard.replicas.mending import Mending, Right, pack, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from everybit.core.damage import Damage
    from everybit.core.finding import Finding
    from everybit.core.grid import Words
    from everybit.guard.replicas.board import Board
    from everybit.guard.replicas.copies import Copies, Parted
    from everybit.guard.replicas.snapshot import Snapshot
    from everybit.guard.state import CarriedState

    #: Returns the copies of a set of layouts.
    CopiesOf = Callable[[Sequence[Layout]], Copies]

#: Tensors of one step whose damage is placed and healed.
MAX_PLACED: Final = 512
#: Bytes that one rank sends for healing in one step.
MAX_SENT_BYTES: Final = 256 << 20

#: What a finding names first.
_ORDER: Final = (Role.PARAMETER, Role.BUFFER, Role.STATE, Role.GRADIENT)


class _Stage(IntEnum):
    DIGESTS = 0
    SUMS = 1
    BYTES = 2
    DONE = 3


class Case:
    """One step's digests, looked into by all ranks.

    Args:
        number: Of the round, the same on all ranks.
        snapshot: What this rank has to show.
        layouts: The word of each rank's layout.
        board: Where the ranks put their notes.
        rank: This process's rank.
        ranks: The ranks that have to take part: those that hold copies, all where that is not
            known.
        heal: Put the right bytes back on a rank that is wrong.

    Attributes:
        step: The update that was just finished or skipped.
        findings: What this rank has to tell.
        num_compared: This rank's tensors that were compared.
    """

    def __init__(
        self,
        number: int,
        snapshot: Snapshot,
        layouts: Sequence[int],
        board: Board,
        *,
        rank: int,
        ranks: Sequence[int],
        heal: bool,
    ) -> None:
        self.step = snapshot.step
        self.findings: list[Finding] = []
        self.num_compared = 0
        self._topic = f"case/{number}"
        self._snapshot = snapshot
        self._layouts = list(layouts)
        self._board = board
        self._rank = rank
        self._ranks = list(ranks)
        self._heal = heal
        self._stage = _Stage.DIGESTS
        self._told: list[Parted] = []
        self._shares: Mapping[tuple[int, ...], float] = {}
        self._mending: dict[str, Mending] = {}
        self._sends = False
        self._began = time.monotonic()
        self._put(
            "digests",
            _headed(json.dumps(sorted(snapshot.known)).encode(), snapshot.words.tobytes()),
        )

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do."""
        return self._stage is _Stage.DONE and not self._sends

    @property
    def waited_s(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._began

    def waits_for(self) -> list[int]:
        """Return the ranks whose digests are not there."""
        if self._stage is not _Stage.DIGESTS:
            return []
        return [rank for rank in self._ranks if not self._has("digests", [rank])]

    def advance(self, copies_of: CopiesOf, state: CarriedState) -> None:
        """Go on as far as the other ranks' notes are there; findings are added as they stand."""
        if self._stage is _Stage.DIGESTS and self._has("digests", self._ranks):
            self._decide(copies_of)
        if self._stage is _Stage.SUMS and self._has("sums", self._sources()):
            self._place(state)
        if self._sends and self._has("wants", self._askers()):
            self._send()
        sources = {each.source for each in self._healable()}
        if self._stage is _Stage.BYTES and self._has("bytes", sorted(sources)):
            self._patch()
            self._tell(state)

    def _has(self, what: str, ranks: Sequence[int]) -> bool:
        return self._board.has(f"{self._topic}/{what}", ranks)

    def _decide(self, copies_of: CopiesOf) -> None:
        layouts = [
            Layout.from_bytes(self._board.get(f"layout/{word:x}", rank))
            for rank, word in enumerate(self._layouts)
        ]
        copies = copies_of(layouts)
        words: dict[int, Words] = {}
        known: dict[int, frozenset[str]] = {}
        for rank in copies.ranks:
            head, data = _split(self._get("digests", rank))
            known[rank] = frozenset(json.loads(head))
            words[rank] = np.frombuffer(data, np.uint64)
        self.num_compared = copies.num_compared
        self._told = copies.compare(words, known, heals=self._heal)
        self._shares = copies.shares(self._told)
        mine = [each for each in self._told if each.source == self._rank]
        self._sends = self._heal and any(each.named_by for each in mine)
        if mine:
            rights = {
                each.column.name: Right.of(place)
                for each in mine[:MAX_PLACED]
                if (place := self._snapshot.place(each.column.name)) is not None
            }
            self._put("sums", pack(rights))
        self._stage = _Stage.SUMS if self._mine() else _Stage.DONE

    def _mine(self) -> list[Parted]:
        """Return the copies that this rank tells of."""
        return [each for each in self._told if self._rank in each.tellers]

    def _sources(self) -> list[int]:
        return sorted({each.source for each in self._mine()})

    def _askers(self) -> list[int]:
        mine = [each for each in self._told if each.source == self._rank and each.named_by]
        return sorted({teller for each in mine for teller in each.tellers})

    def _place(self, state: CarriedState) -> None:
        rights: dict[str, Right] = {}
        for source in self._sources():
            rights |= unpack(self._get("sums", source))
        lasting = self._snapshot.lasting
        for each in self._mine():
            place = self._snapshot.place(each.column.name)
            right = rights.get(each.column.name)
            if place is not None and right is not None:
                self._mending[each.column.name] = Mending(place, right, lasting=lasting)
        if not self._healable():
            self._tell(state)
            return
        wants = [
            [each.source, each.column.name, mending.wanted]
            for each in self._healable()
            if (mending := self._mending.get(each.column.name)) is not None and mending.wanted
        ]
        self._put("wants", json.dumps(wants).encode())
        self._stage = _Stage.BYTES

    def _healable(self) -> list[Parted]:
        """Return the copies that this rank is to heal."""
        return [each for each in self._mine() if self._heal and each.named_by]

    def _send(self) -> None:
        """Put up the bytes that the others want."""
        head: list[list[object]] = []
        pieces: list[bytes] = []
        left = MAX_SENT_BYTES
        for asker in self._askers():
            for source, name, blocks in json.loads(self._get("wants", asker)):
                place = self._snapshot.place(name) if source == self._rank else None
                data = b"" if place is None else place.block_bytes(blocks)
                if 0 < len(data) <= left:
                    left -= len(data)
                    head.append([asker, name, len(data)])
                    pieces.append(data)
        self._put("bytes", _headed(json.dumps(head).encode(), b"".join(pieces)))
        self._sends = False

    def _patch(self) -> None:
        for source in {each.source for each in self._healable()}:
            head, data = _split(self._get("bytes", source))
            at = 0
            for asker, name, size in json.loads(head):
                if asker == self._rank and name in self._mending:
                    self._mending[name].patch(data[at : at + size])
                at += size

    def _tell(self, state: CarriedState) -> None:
        by_owner: dict[tuple[str, tuple[int, ...]], list[Parted]] = {}
        for each in sorted(self._mine(), key=lambda parted: _ORDER.index(parted.column.role)):
            by_owner.setdefault((owner_of(each.column.name), each.culprits), []).append(each)
        healable = {each.column.name for each in self._healable()}
        damages: dict[str, Damage] = {}
        for name, mending in self._mending.items():
            damages[name] = damage = mending.damage(heal=name in healable)
            if damage.healed:
                state.mark_one(mending.place.marks, mending.place.index)
        summaries = [
            PartedCopies(
                step=self.step,
                rank=self._rank,
                names=tuple(each.column.name for each in group),
                words=group[0].words,
                culprits=culprits,
                named_by=group[0].named_by,
                declared=group[0].column.declared,
                reduced=any(each.column.role is Role.GRADIENT for each in group),
                buffer=group[0].column.role is Role.BUFFER,
                share=self._shares.get(culprits, 0.0),
                damages=tuple(
                    damages[each.column.name] for each in group if each.column.name in damages
                ),
            )
            for (_, culprits), group in by_owner.items()
        ]
        self.findings += judge_replicas(summaries)
        self._stage = _Stage.DONE

    def _put(self, what: str, note: bytes) -> None:
        self._board.put(f"{self._topic}/{what}", note)

    def _get(self, what: str, rank: int) -> bytes:
        return self._board.get(f"{self._topic}/{what}", rank)


def _headed(head: bytes, data: bytes) -> bytes:
    return len(head).to_bytes(4, "little") + head + data


def _split(note: bytes) -> tuple[bytes, bytes]:
    start = 4 + int.from_bytes(note[:4], "little")
    return note[4:start], note[start:]

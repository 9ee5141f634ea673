"""Two runs that keep one model in different shards: compared are digests of the whole tensors.

A rank's own digest of a shard has no counterpart in a run with copies, or with other shards. Runs
with shards put digests of whole tensors on record, at some steps: these take their place.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from everybit.core.link import Link
from everybit.core.observation import SumTable, TensorTable, split_entry
from everybit.core.verdict import Skipped
from everybit.diff.environment import Difference
from everybit.diff.starts import overlay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from everybit.core.observation import StepRecord
    from everybit.diff.side import RankSide, RunSide, WholeWords

    Start = tuple[int, tuple[TensorTable, ...]]

#: Links whose names are those of parameters.
_CARRIED: Final = frozenset({Link.INIT, Link.LOAD, Link.STATE, Link.GRAD, Link.REDUCE, Link.UPDATE})


def differ(a: RunSide, b: RunSide) -> bool:
    """Whether a rank of one run holds other parts of tensors than that of the other run."""
    if not any(side.shards for run in (a, b) for side in run.ranks.values()):
        return False
    if a.world_size != b.world_size:
        return True
    return any(a.ranks[rank].shards != b.ranks[rank].shards for rank in {*a.ranks} & {*b.ranks})


@dataclass(slots=True, kw_only=True)
class Joined:
    """Two runs whose shards were put together.

    Attributes:
        sides: The runs, with digests of whole tensors where these are on record in both.
        differences: That the shards are others.
    """

    sides: tuple[RunSide, RunSide]
    differences: tuple[Difference, ...]
    _steps: set[int] = field(default_factory=set)

    def told(self) -> Skipped:
        """Return what is not compared; ask for it when the runs have been compared."""
        if not self._steps:
            why = "the runs keep them in other shards, and one has no digests of whole tensors"
        else:
            why = (
                "the runs keep them in other shards: compared are digests of whole tensors, on "
                f"record at {len(self._steps)} of the steps compared; gradients have none"
            )
        return Skipped(what="tensors in shards at all other steps", why=why, promised=False)


def joined(a: RunSide, b: RunSide) -> Joined:
    """Put whole tensors in the place of shards, in both runs."""
    split = frozenset(
        name for run in (a, b) for side in run.ranks.values() for name in side.shards or ()
    )
    difference = Difference(
        entry="ranks.shards", before=_described(a), after=_described(b), kind="environment"
    )
    found = Joined(sides=(a, b), differences=(difference,))
    if all(run.ranks for run in (a, b)):
        found.sides = (_run(a, b, split, found._steps), _run(b, a, split, set()))
    return found


def _described(run: RunSide) -> str:
    for rank in sorted(run.ranks):
        if shards := run.ranks[rank].shards:
            return f"{len(shards)} parameters in shards, over {run.world_size} ranks"
    return f"whole, {run.world_size} ranks" if run.world_size > 1 else "whole"


def _run(run: RunSide, other: RunSide, split: frozenset[str], steps: set[int]) -> RunSide:
    lowest = other.ranks[min(other.ranks)]
    ranks = {
        rank: _Pair(side, other.ranks.get(rank, lowest), split, steps).side()
        for rank, side in run.ranks.items()
    }
    return replace(run, ranks=ranks)


@dataclass(frozen=True)
class _Pair:
    """A rank of a run, beside the one that it is compared with."""

    mine: RankSide
    theirs: RankSide
    split: frozenset[str]
    steps: set[int]

    def side(self) -> RankSide:
        mine = self.mine
        whole, reread = mine.whole, mine.reread
        return replace(
            mine,
            starts=self._starts(),
            steps=self._records(mine.steps),
            reread=None if reread is None else lambda: self._records(reread()),
            whole=None if whole is None else partial(self._whole, whole),
            sealed=None,
            layout=None,
        )

    def _starts(self) -> Iterator[Start]:
        starts = list(self.mine.starts)
        words = [_words_at(side, Link.INIT, None) for side in (self.mine, self.theirs)]
        known = words[0] or words[1]
        at = known[0] if known else -1
        before = [table for step, tables in starts if step <= at for table in tables]
        own = words[0][1] if words[0] else {}
        if not self.mine.shards:
            own = {n: w for n, w in overlay(before)[0].as_dict().items() if self._is_split(n)}
        if self.theirs.shards:
            own = {n: w for n, w in own.items() if words[1] and n in words[1][1]}
        for step, tables in starts:
            kept = [each for t in tables if (each := self._without(t, {}, {})) is not None]
            if step <= at and own:
                names, digests = tuple(own), tuple(own.values())
                kept.append(TensorTable(link=Link.INIT, names=names, digests=digests))
                own = {}
            if kept:
                yield step, tuple(kept)

    def _records(self, records: Iterable[StepRecord]) -> Iterator[StepRecord]:
        mine, theirs = _Cursor(self.mine), _Cursor(self.theirs)
        for record in records:
            yield self._record(record, mine.at(record.step), theirs.at(record.step))

    def _whole(self, read: Callable[[int], StepRecord | None], step: int) -> StepRecord | None:
        record = read(step)
        if record is None:
            return None
        words = [_words_at(side, Link.UPDATE, step) for side in (self.mine, self.theirs)]
        return self._record(record, *(found[1] if found else {} for found in words))

    def _record(
        self, record: StepRecord, mine: Mapping[str, int], theirs: Mapping[str, int]
    ) -> StepRecord:
        tables = [self._without(table, mine, theirs) for table in record.tables]
        if mine or theirs:
            self.steps.add(record.step)
        sums = []
        for table in record.sums:
            rows = [i for i, name in enumerate(table.names) if not self._is_split(name)]
            names = tuple(table.names[i] for i in rows)
            sums.append(
                SumTable(link=table.link, names=names, values=[table.values[i] for i in rows])
            )
        return replace(
            record,
            tables=tuple(table for table in tables if table is not None),
            sums=tuple(table for table in sums if table.names),
            # The norms that a rank has measured are those of its parts.
            scalars={k: v for k, v in record.scalars.items() if not k.endswith("_norm")},
        )

    def _without(
        self, table: TensorTable, mine: Mapping[str, int], theirs: Mapping[str, int]
    ) -> TensorTable | None:
        """Return a table without what is in shards, or with its digests as a whole."""
        if table.link not in _CARRIED or not any(map(self._is_split, table.names)):
            return table
        kept: dict[str, int] = {}
        for name, digest in table:
            if not self._is_split(name):
                kept[name] = digest
            elif table.link is Link.UPDATE and not (self.theirs.shards and name not in theirs):
                if not self.mine.shards:
                    kept[name] = digest
                elif name in mine:
                    kept[name] = mine[name]
        if not kept:
            return None
        return TensorTable(link=table.link, names=tuple(kept), digests=tuple(kept.values()))

    def _is_split(self, name: str) -> bool:
        return split_entry(name)["parameter"] in self.split or name in self.split


class _Cursor:
    """Digests of whole tensors, step after step."""

    def __init__(self, side: RankSide) -> None:
        self._rest = side.wholes() if side.wholes is not None else iter(())
        self._next = next(self._rest, None)

    def at(self, step: int) -> dict[str, int]:
        """Return the digests of a step; steps have to be asked for in order."""
        words: dict[str, int] = {}
        while self._next is not None and self._next.step <= step:
            if self._next.step == step and self._next.link is Link.UPDATE:
                words |= self._next.words
            self._next = next(self._rest, None)
        return words


def _words_at(side: RankSide, link: Link, step: int | None) -> tuple[int, dict[str, int]] | None:
    """Return `(step, digests)` of a link, at a step or at the first that has any."""
    found: WholeWords
    for found in side.wholes() if side.wholes is not None else ():
        if found.link is link and step in (None, found.step):
            return found.step, dict(found.words)
    return None

"""A run that starts from a state of the other: its steps are counted on from there.

A resumed run numbers its steps from 0 again. Where the state that it starts from is one that the
other run's record holds after some step, both are compared from the next step on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from everybit.core.link import Link
from everybit.diff.late_writes import STATE_MARK, Late, written_late
from everybit.diff.link_difference import compare_tables
from everybit.diff.names import align
from everybit.diff.side import SealedStep
from everybit.diff.starts import overlay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from everybit.core.finding import Finding
    from everybit.core.observation import StepRecord, TensorTable
    from everybit.core.samples import SampleRecord
    from everybit.diff.side import Configurations, RankSide

    Start = tuple[int, tuple[TensorTable, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """How the steps of one side were counted on.

    Attributes:
        side: `A` or `B`: the run whose steps were renumbered.
        after: The step of the other run whose outcome it starts from.
        offset: What was added to its own step numbers.
        own: Its own steps on record.
    """

    side: str
    after: int
    offset: int
    own: range

    @property
    def note(self) -> str:
        """One clause for the coverage."""
        other = "B" if self.side == "A" else "A"
        first, last = self.own.start, self.own.stop - 1
        text = f"{self.side} starts from the state of {other} after step {self.after}"
        if not self.own:
            return text
        return (
            f"{text}; its steps {first} to {last} are compared as "
            f"{first + self.offset} to {last + self.offset}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """A side that starts from the other's weights after a step, and not from its optimizer state.

    Attributes:
        side: `A` or `B`: the run that starts from them.
        after: The step of the other run that left these weights.
        state: Names of the state that the other run had then, which did not come along.
    """

    side: str
    after: int
    state: tuple[str, ...]

    @property
    def why(self) -> str:
        """One sentence."""
        other = "B" if self.side == "A" else "A"
        return (
            f"run {self.side} starts from the weights that run {other} has after step "
            f"{self.after}, to the bit, and without the optimizer state of that step "
            f"({len(self.state)} tensors): its moments and step counters begin anew"
        )


def align_resumed(
    a: RankSide, b: RankSide
) -> tuple[RankSide, RankSide, Shift | None, Forgotten | None]:
    """Count the steps of a resumed side on from the other's step that it starts after.

    Sides whose initial values agree, or none of which was resumed, come back as they are. A side
    that starts from the other's weights alone is told.
    """
    peeled = [_peel(side) for side in (a, b)]
    sides = [
        replace(side, starts=chain(first, rest))
        for side, (first, rest) in zip((a, b), peeled, strict=True)
    ]
    held = [overlay(tuple(t for _, tables in first for t in tables))[0] for first, _ in peeled]
    if all(table.names for table in held) and compare_tables(Link.INIT, held[:1], held[1:]).parts:
        # The second run is most often the resumed one.
        for number in (1, 0):
            if not is_resumed(sides[number], held[number].names):
                continue
            after = _find(held[number], sides[number], sides[1 - number])
            if after is not None:
                own = sides[number].step_range
                offset = after + 1 - own.start
                shift = Shift(side="AB"[number], after=after, offset=offset, own=own)
                # What it started from has been found equal just now.
                begun = replace(sides[number], starts=peeled[number][1])
                sides[number] = _shifted(begun, offset)
                return sides[0], sides[1], shift, None
        for number in (1, 0):
            if _only_evaluates(sides[number]):
                continue
            forgotten = _find_weights(held[number], sides[1 - number], "AB"[number])
            if forgotten is not None:
                return sides[0], sides[1], None, forgotten
    return sides[0], sides[1], None, None


def is_resumed(side: RankSide, names: tuple[str, ...]) -> bool:
    """Return whether a side began with a state that some earlier step left, as far as is known."""
    return side.attempt > 0 or any(STATE_MARK in name for name in names)


def shift_finding(finding: Finding, offset: int) -> Finding:
    """Return a finding of a renumbered side with its step counted on."""
    if finding.where.step is None:
        return finding
    return replace(finding, where=replace(finding.where, step=finding.where.step + offset))


def _peel(side: RankSide) -> tuple[list[Start], Iterator[Start]]:
    """Return the digests taken before the first step, and the later ones, unread."""
    rest = iter(side.starts)
    first: list[Start] = []
    for start in rest:
        if first and start[0] != first[0][0]:
            return first, chain([start], rest)
        first.append(start)
    return first, rest


def _find(state: TensorTable, resumed: RankSide, other: RankSide) -> int | None:
    """Return the step of `other` after which its record holds this state.

    A skipped update leaves the same state twice: then the step counts whose successor begins with
    the same batch as the resumed side, else the last one.
    """
    if other.reread is None:
        return None
    begun = next(iter(resumed.reread()), None) if resumed.reread is not None else None
    found = None
    late: Late | None = None
    for record in other.reread():
        if found is not None and begun is not None and _batches(record) == _batches(begun):
            return found
        updates = [table for table in record.tables if table.link is Link.UPDATE]
        if updates and all(_is_held(state, update) for update in updates):
            found = record.step
        elif found is not None:
            return found
        elif late is not None and (late.is_held(state, record) or late.is_read_late(record, begun)):
            return late.step
        else:
            late = written_late(state, record)
    return found


def _find_weights(state: TensorTable, other: RankSide, side: str) -> Forgotten | None:
    """Return the step of `other` that left these weights, where its optimizer held more."""
    if other.reread is None or any(STATE_MARK in name for name in state.names):
        return None
    ours = dict(zip(state.names, state.words(), strict=True))
    for record in other.reread():
        updates = [table for table in record.tables if table.link is Link.UPDATE]
        forgotten = [name for table in updates for name in table.names if STATE_MARK in name]
        if forgotten and all(_weights_held(state, ours, table) for table in updates):
            return Forgotten(side=side, after=record.step, state=tuple(forgotten))
    return None


def _only_evaluates(side: RankSide) -> bool:
    """Whether a side has no optimizer: it needs no optimizer state of a checkpoint."""
    first = next(iter(side.reread()), None) if side.reread is not None else None
    return (
        first is not None
        and not first.optimizer
        and any(table.link is Link.OUTPUT for table in first.tables)
    )


def _weights_held(state: TensorTable, ours: dict[str, int], update: TensorTable) -> bool:
    """Return whether all weights that an update left are in the state, to the bit."""
    theirs = {
        name: word
        for name, word in zip(update.names, update.words(), strict=True)
        if STATE_MARK not in name
    }
    if theirs.keys() <= ours.keys():
        return bool(theirs) and all(ours[name] == word for name, word in theirs.items())
    names = tuple(theirs)
    pairing = align(state.names, names)
    if not pairing.pairs or pairing.only_b or (pairing.prefix_b and pairing.outside):
        return False
    return all(ours[state.names[at]] == theirs[names[there]] for at, there in pairing.pairs)


def _batches(record: StepRecord) -> list[tuple[int, ...]]:
    return [tuple(table.words()) for table in record.tables if table.link is Link.BATCH]


def _is_held(state: TensorTable, update: TensorTable) -> bool:
    """Return whether all that an update left is in the state, to the bit."""
    pairing = align(state.names, update.names)
    if not pairing.pairs or pairing.only_b or (pairing.prefix_b and pairing.outside):
        return False
    ours, theirs = state.words(), update.words()
    return all(ours[at] == theirs[there] for at, there in pairing.pairs)


def _moved(open_step: Callable[[], StepRecord], offset: int) -> StepRecord:
    record = open_step()
    return replace(record, step=record.step + offset)


def _shifted(side: RankSide, offset: int) -> RankSide:
    def moved(step: int | None) -> int | None:
        return None if step is None else step + offset

    own = side.step_range
    whole, configurations, samples = side.whole, side.configurations, side.samples
    sealed = side.sealed

    def shifted_sealed() -> Iterator[SealedStep]:
        assert sealed is not None
        for each in sealed():
            opened = partial(_moved, each.open, offset)
            yield SealedStep(each.step + offset, each.body, each.streams, opened)

    def shifted_whole(step: int) -> StepRecord | None:
        record = whole(step - offset) if whole is not None else None
        return replace(record, step=step) if record is not None else None

    def shifted_configurations() -> Configurations:
        assert configurations is not None
        return ((step + offset, change) for step, change in configurations())

    def shifted_samples() -> Iterator[SampleRecord]:
        assert samples is not None
        for record in samples():
            yield record if record.step < 0 else replace(record, step=record.step + offset)

    return replace(
        side,
        sealed=shifted_sealed if sealed is not None else None,
        whole=shifted_whole if whole is not None else None,
        configurations=shifted_configurations if configurations is not None else None,
        samples=shifted_samples if samples is not None else None,
        starts=((step + offset, tables) for step, tables in side.starts),
        steps=(replace(record, step=record.step + offset) for record in side.steps),
        step_range=range(own.start + offset, own.stop + offset),
        # Multiples of the cadence in its own count are none in the other's.
        every=side.every if side.every == 1 else 0,
        gaps=tuple(
            replace(gap, after=moved(gap.after), before=moved(gap.before)) for gap in side.gaps
        ),
    )

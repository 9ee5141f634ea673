"""Walk two records of one rank side by side, step by step, to the first value that parts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from everybit.core.link import Link
from everybit.core.observation import StepRecord
from everybit.diff.first_step import as_later
from everybit.diff.link_difference import LinkDifference, compare_steps, compare_tables
from everybit.diff.parting import Parting
from everybit.diff.resume import Forgotten, Shift, align_resumed, is_resumed
from everybit.diff.side import SealedStep
from everybit.diff.starts import overlay
from everybit.diff.streams import Streams

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from everybit.core.observation import TensorTable
    from everybit.diff.side import RankSide

    Event = tuple[int, int, tuple[TensorTable, ...] | StepRecord | SealedStep]
    Opened = tuple[int, int, tuple[TensorTable, ...] | StepRecord]


@dataclass(slots=True, kw_only=True)
class Walked:
    """What a walk found and how far it went.

    Attributes:
        rank: The rank.
        sides: What was compared, each with the step numbers that it was compared under.
        parting: The first parting, if any.
        num_steps: Steps compared.
        num_values: Digests and losses compared.
        last_agreed: The last step at which all recorded values agreed.
        uncommon: Steps that one side did not record, its cadence being another.
        lost: `(side, what)` of steps that damage hides, with how many.
        unordered: Sides whose steps do not ascend.
        overwritten: Initial values that differ and were loaded over before use.
        notes: How names were paired, where they are not simply equal.
        untraced: Sides that lack what the other traced by module.
        starts_only: Sides that alone have digests outside a step.
        streams: Random streams that differ.
        shift: How the steps of a side that starts from a state of the other were counted on.
        forgotten: A side that starts from the other's weights without its optimizer state.
    """

    rank: int
    sides: tuple[RankSide, RankSide]
    parting: Parting | None = None
    num_steps: int = 0
    num_values: int = 0
    last_agreed: int | None = None
    uncommon: int = 0
    lost: dict[str, int] = field(default_factory=dict)
    unordered: set[str] = field(default_factory=set)
    overwritten: int = 0
    starts_only: set[str] = field(default_factory=set)
    notes: set[str] = field(default_factory=set)
    untraced: set[str] = field(default_factory=set)
    streams: Streams = field(default_factory=Streams)
    shift: Shift | None = None
    forgotten: Forgotten | None = None


def walk(a: RankSide, b: RankSide) -> Walked:
    """Compare two records of one rank; each is read once and never held.

    The walk ends at the first parting, or where one record ends.
    """
    a, b, shift, forgotten = align_resumed(a, b)
    walked = Walked(rank=a.rank, sides=(a, b), shift=shift, forgotten=forgotten)
    sides = (a, b)
    is_sealed = a.layout is not None and a.layout == b.layout and bool(a.sealed and b.sealed)
    streams = [
        _events(side, number, walked, is_sealed=is_sealed) for number, side in enumerate(sides)
    ]
    counts: dict[tuple[int, bytes], int] = {}
    heads = [next(stream, None) for stream in streams]
    while heads[0] is not None and heads[1] is not None:
        one, other = heads[0], heads[1]
        if one[:2] == other[:2]:
            walked.parting = _side_by_side(one, other, sides, walked, counts)
            turn = [0, 1]
        else:
            behind = int(other[:2] < one[:2])
            walked.parting = _alone(_opened((one, other)[behind]), behind, sides, walked)
            turn = [behind]
        if walked.parting is not None:
            after = [
                _opened(event) if (event := next(streams[number], None)) else None
                for number in turn
            ]
            walked.parting = walked.streams.blame(walked.parting, after)
            return walked
        for number in turn:
            heads[number] = next(streams[number], None)
    return walked


def _side_by_side(
    one: Event,
    other: Event,
    sides: tuple[RankSide, RankSide],
    walked: Walked,
    counts: dict[tuple[int, bytes], int],
) -> Parting | None:
    a, b = one[2], other[2]
    if not (isinstance(a, SealedStep) and isinstance(b, SealedStep) and a.body == b.body):
        return _compare(_opened(one), _opened(other), sides, walked)
    if walked.streams.differ(a.streams, b.streams):
        return _compare(_opened(one), _opened(other), sides, walked)
    # Bodies of one length and head hold as many values as each other.
    key = len(a.body), a.body[:16]
    if key not in counts:
        record = a.open()
        counts[key] = sum(len(t.names) for t in record.tables) + len(record.losses)
    walked.num_values += counts[key]
    walked.num_steps += 1
    walked.last_agreed = a.step
    return None


def _opened(event: Event) -> Opened:
    """Return an event with its record opened."""
    step, place, record = event
    return step, place, record.open() if isinstance(record, SealedStep) else record


def _events(side: RankSide, number: int, walked: Walked, *, is_sealed: bool) -> Iterator[Event]:
    """Yield `(step, 0, tables)` and `(step, 1, record)` in the order in which they happened."""
    records: Iterable[Any] = side.steps
    if is_sealed and side.sealed is not None:
        records = side.sealed()
    starts = (
        (step, tuple(table for _, tables in group for table in tables))
        for step, group in groupby(side.starts, key=lambda start: start[0])
    )
    start = next(starts, None)
    latest = -1
    for record in records:
        while start is not None and start[0] <= record.step:
            yield start[0], 0, start[1]
            start = next(starts, None)
        if record.step <= latest:
            walked.unordered.add("AB"[number])
            continue
        latest = record.step
        yield record.step, 1, record
    while start is not None:
        yield start[0], 0, start[1]
        start = next(starts, None)


def _compare(
    a: Opened, b: Opened, sides: tuple[RankSide, RankSide], walked: Walked
) -> Parting | None:
    step = a[0]
    if isinstance(a[2], StepRecord) and isinstance(b[2], StepRecord):
        one, other = a[2], b[2]
        differences, num_values = compare_steps(one, other, walked.notes, walked.untraced)
        if differences and walked.shift is not None and step == walked.shift.after + 1:
            pair = as_later(one, other) if walked.shift.side == "A" else as_later(other, one)[::-1]
            left, num_left = compare_steps(*pair, walked.notes, walked.untraced)
            drawn = any(each.link is Link.RNG and each.differing for each in differences)
            if not (left and drawn):  # Streams may differ for that alone, or be what parts.
                differences, num_values = left, num_left
        walked.num_values += num_values
        walked.num_steps += 1
        differences = _without_lost(differences, sides, walked)
        differences = walked.streams.set_aside(differences, one, other)
        if not differences:
            walked.last_agreed = step
            return None
        return Parting(
            rank=walked.rank,
            step=step,
            differences=tuple(differences),
            losses=(a[2].losses, b[2].losses),
            tainted=(a[2].tainted, b[2].tainted),
            records=(_whole(sides[0], a[2]), _whole(sides[1], b[2])),
            traced=all(_has_forward(each[2]) for each in (a, b)),
        )
    assert not isinstance(a[2], StepRecord)
    assert not isinstance(b[2], StepRecord)
    found = _without_lost(_compare_starts(a[2], b[2], walked), sides, walked)
    if not found:
        return None
    names = [tuple(name for table in each for name in table.names) for each in (a[2], b[2])]
    resumed = "".join("AB"[n] for n in (0, 1) if is_resumed(sides[n], names[n]))
    return Parting(
        rank=walked.rank,
        step=step,
        differences=tuple(found),
        resumed=resumed,
        forgotten=walked.forgotten if walked.last_agreed is None else None,
    )


def _whole(side: RankSide, record: StepRecord) -> StepRecord:
    """Return the record with its block sums."""
    found = side.whole(record.step) if side.whole is not None else None
    return found if found is not None else record


def _has_forward(record: object) -> bool:
    return isinstance(record, StepRecord) and any(
        table.link is Link.FORWARD for table in record.tables
    )


def _without_lost(
    differences: list[LinkDifference], sides: tuple[RankSide, RankSide], walked: Walked
) -> list[LinkDifference]:
    """Drop values that a side lacks where its record is damaged: that is no difference."""
    kept = []
    for each in differences:
        one = each
        if sides[0].gaps and one.only_b:
            walked.lost["A"] = walked.lost.get("A", 0) + 1
            one = replace(one, only_b=())
        if sides[1].gaps and one.only_a:
            walked.lost["B"] = walked.lost.get("B", 0) + 1
            one = replace(one, only_a=())
        if one.parts:
            kept.append(one)
    return kept


def _compare_starts(
    a: tuple[TensorTable, ...], b: tuple[TensorTable, ...], walked: Walked
) -> list[LinkDifference]:
    """Compare what each side holds once all loads are done; each difference under its link."""
    held = [overlay(side) for side in (a, b)]
    found = compare_tables(Link.INIT, *[[table] for table, _ in held])
    walked.num_values += found.num_compared
    loaded = held[0][1] | held[1][1]
    differences = []
    for link in (Link.INIT, Link.LOAD):
        part = LinkDifference(
            link=link,
            differing=tuple(e for e in found.differing if (e[0] in loaded) is (link is Link.LOAD)),
            num_compared=found.num_compared,
            only_a=found.only_a if link is Link.INIT else (),
            only_b=found.only_b if link is Link.INIT else (),
        )
        if part.parts:
            differences.append(part)
    if loaded and not differences:
        raw = [[table for table in side if table.link is Link.INIT] for side in (a, b)]
        walked.overwritten += len(compare_tables(Link.INIT, *raw).differing)
    return differences


def _alone(
    event: Opened, number: int, sides: tuple[RankSide, RankSide], walked: Walked
) -> Parting | None:
    """Judge an event that only side `number` has: a difference, or something not to compare."""
    step, _, record = event
    other = sides[1 - number]
    if not isinstance(record, StepRecord):
        walked.starts_only.add("AB"[number])
        return None
    if any(gap.covers(step) for gap in other.gaps):
        side = "AB"[1 - number]
        walked.lost[side] = walked.lost.get(side, 0) + 1
        return None
    if not other.step_range.start <= step < other.step_range.stop:
        return None  # before the other began or after it ended: told by the coverage
    if other.every != 1 and (other.every == 0 or step % other.every):
        walked.uncommon += 1
        return None
    return Parting(rank=walked.rank, step=step, missing_in="AB"[1 - number])

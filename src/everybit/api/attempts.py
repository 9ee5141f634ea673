"""Attempts of one run: whether each went on where the one before had saved its state."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from everybit.api.label_maps import label_maps_of
from everybit.core.link import Link
from everybit.detect.label_maps import LabelMap, compare_maps
from everybit.detect.resume_misaligned import judge_going_on
from everybit.diff.resume import align_resumed
from everybit.diff.side import RankSide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.finding import Finding
    from everybit.core.observation import StepRecord
    from everybit.core.samples import SampleRecord
    from everybit.ledger import LogReader, RunReader

#: Batches of so many steps before and behind a checkpoint are looked through for the same ones.
_NEAR_STEPS: Final = 50_000
#: Trainers fetch so many batches before they need them, at most.
_MAX_AHEAD: Final = 2


def judge_attempts(run: RunReader) -> list[Finding]:
    """Say where an attempt goes on with other samples, or other label maps, than the one before.

    The checkpoint that an attempt began with is found by its state: the step of an earlier attempt
    that left these weights and this optimizer state, to the bit. Nothing is said of an attempt that
    begins anew, or with a state that no attempt on record left, or while the run goes on.

    Args:
        run: The run, as `everybit.open_run` gives it.
    """
    if run.alive:
        return []
    found: list[Finding] = []
    for rank in run.ranks:
        attempts = run.logs(rank)
        for number, log in enumerate(attempts[1:], 1):
            found += _judge_labels(attempts[number - 1], log)
            for earlier in reversed(attempts[:number]):
                after = _left_at(earlier, log)
                if after is not None:
                    found += _judge(earlier, log, after + 1)
                    break
    return found


def _left_at(earlier: LogReader, log: LogReader) -> int | None:
    """Return the step of an attempt that left the state which another one begins with."""
    if not (earlier.num_steps and log.num_steps):
        return None
    *_, shift, _forgotten = align_resumed(_side(earlier), _side(log))
    return shift.after if shift is not None and shift.side == "B" else None


def _side(log: LogReader) -> RankSide:
    return RankSide(
        rank=log.rank,
        attempt=log.attempt,
        starts=log.inits(),
        reread=lambda: log.steps(arrays=True, sums=False),
        step_range=log.step_range,
    )


def _judge(earlier: LogReader, log: LogReader, step: int) -> list[Finding]:
    if step not in earlier.step_range:
        return []  # It had not come further than its checkpoint.
    begun = log.step_range.start
    wanted, found = earlier.step(step), log.step(begun)
    if _inputs(wanted) and _inputs(wanted) == _inputs(found):
        return []  # What reached the model is the same, whatever the loop has fetched ahead.
    near = range(max(0, step - _NEAR_STEPS), step + _NEAR_STEPS)
    before, after = _by_loader(earlier, near), _by_loader(log, range(begun, begun + _NEAR_STEPS))
    judged = []
    for name in sorted(before.keys() & after.keys()):
        each = _taken(before[name])
        ahead = max(0, each.first - each.usual)
        ahead = ahead if ahead <= _MAX_AHEAD else 0  # So many were passed over by the loop.
        passed = max(0, _taken(after[name]).first - each.usual - ahead)
        judged.append(
            judge_going_on(before[name], after[name], step=step, ahead=ahead, passed=passed)
        )
    return [finding for finding in judged if finding is not None]


def _inputs(record: StepRecord | None) -> list[tuple[int, ...]]:
    if record is None:
        return []
    return [tuple(table.words()) for table in record.tables if table.link is Link.BATCH]


def _by_loader(log: LogReader, steps: range) -> dict[str, list[SampleRecord]]:
    """Return the batches that these steps trained on; a hash stands for the keys of each."""
    found: dict[str, list[SampleRecord]] = {}
    for each in log.samples():
        if each.step in steps:
            keys = None if each.indices is None else (hash(each.indices),)
            found.setdefault(each.loader, []).append(replace(each, indices=keys, sample_digests=()))
    return found


class _Taken(NamedTuple):
    """Batches of a loader that the first step took, and that a step takes on the whole."""

    first: int
    usual: int


def _taken(records: Sequence[SampleRecord]) -> _Taken:
    counts = Counter(each.step for each in records)
    ordered = [counts[step] for step in sorted(counts)]
    # The last one may have been broken off.
    inner = sorted(ordered[1:-1]) or ordered[1:] or ordered
    return _Taken(first=ordered[0], usual=inner[len(inner) // 2])


def _judge_labels(earlier: LogReader, log: LogReader) -> list[Finding]:
    before, after = (label_maps_of(each) for each in (earlier, log))
    found = [
        compare_maps(
            LabelMap(owner="the attempt before", attribute=attribute, numbers=before[key]),
            LabelMap(owner=f"attempt {log.attempt}", attribute=attribute, numbers=numbers),
            step=log.step_range.start,
            rank=log.rank,
        )
        for key, numbers in after.items()
        if key in before
        for attribute in (key[1],)
    ]
    return [finding for finding in found if finding is not None]

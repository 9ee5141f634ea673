"""What a diff of two runs did not compare, and whether it should have."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from everybit.core.verdict import Coverage, Skipped
from everybit.diff import worlds
from everybit.diff.environment import uncompared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.diff.side import RankSide, RunSide
    from everybit.diff.walk import Walked


def run_coverage(a: RunSide, b: RunSide, walks: Sequence[Walked]) -> Coverage:
    """Return everything that stood in the way of comparing all of both runs."""
    skipped = [replace(item, promised=False) for item in uncompared(a.environment, b.environment)]
    for rank in () if worlds.differ(a, b) else sorted({*a.ranks} ^ {*b.ranks}):
        lacking = b if rank in a.ranks else a
        skipped.append(Skipped(what=f"rank {rank}", why=f"{lacking.name} has no record of it"))
    if not walks:
        skipped.append(Skipped(what="steps", why="the runs have no rank in common"))
    for walked in walks:
        skipped += _of_rank(walked, *walked.sides)
    return Coverage(skipped=tuple(skipped))


def _of_rank(walked: Walked, a: RankSide, b: RankSide) -> list[Skipped]:
    what = f"steps of rank {walked.rank}"
    sides = {"A": a, "B": b}
    skipped = []
    if walked.shift is not None:
        skipped.append(Skipped(what=f"{what} as numbered", why=walked.shift.note, promised=False))
    if walked.parting is not None:
        skipped.append(
            Skipped(
                what=what,
                why=f"the walk ends where the runs part, at step {walked.parting.step}",
                promised=False,
            )
        )
    elif not walked.num_steps:
        skipped.append(Skipped(what=what, why="the runs have no recorded step in common"))
    for side, count in walked.lost.items():
        gaps = "; ".join(gap.what for gap in sides[side].gaps)
        skipped.append(
            Skipped(
                what=what, why=f"{count} lost to damage in the record of {side} ({gaps}, RUN152)"
            )
        )
    skipped += [
        Skipped(what=what, why=f"the record of {side} goes back in steps; those are left out")
        for side in sorted(walked.unordered)
    ]
    if walked.uncommon:
        skipped.append(
            Skipped(
                what=what,
                why=f"{walked.uncommon} recorded in one run only: A records every {_every(a)}, "
                f"B every {_every(b)}",
                promised=False,
            )
        )
    if walked.overwritten:
        skipped.append(
            Skipped(
                what="initial values",
                why=f"{walked.overwritten} differ and were loaded over before their first use",
                promised=False,
            )
        )
    skipped += [
        Skipped(
            what=f"weights outside steps, rank {walked.rank}",
            why=f"recorded in {side} only",
            promised=False,
        )
        for side in sorted(walked.starts_only)
    ]
    if walked.streams.unused:
        names = ", ".join(walked.streams.unused)
        why = f"not seeded alike ({names}), and nothing recorded follows from them"
        skipped.append(Skipped(what="random streams", why=why, promised=False))
    skipped += [
        Skipped(what="names", why=f"{note}; paired without it", promised=False)
        for note in sorted(walked.notes)
    ]
    skipped += [
        Skipped(
            what=f"values of modules, rank {walked.rank}",
            why=f"not traced in {side}: where the runs part is told less closely",
            promised=False,
        )
        for side in sorted(walked.untraced)
    ]
    if walked.parting is None:
        skipped += _ends(what, sides)
    return skipped


def _ends(what: str, sides: dict[str, RankSide]) -> list[Skipped]:
    """Tell of steps before the later start and after the earlier end, and of ends unrecorded."""
    skipped = [
        Skipped(what=what, why=f"{side}: {rank_side.missed_end}")
        for side, rank_side in sides.items()
        if rank_side.missed_end
    ]
    ranges = {side: rank_side.step_range for side, rank_side in sides.items()}
    if not all(ranges.values()):
        return skipped
    late, early = sorted(ranges, key=lambda side: -ranges[side].start)
    if ranges[late].start != ranges[early].start:
        why = f"those before {ranges[late].start} are in {early} only"
        skipped.append(Skipped(what=what, why=why, promised=False))
    shorter, longer = sorted(ranges, key=lambda side: ranges[side].stop)
    if ranges[shorter].stop == ranges[longer].stop or sides[shorter].missed_end:
        return skipped
    cut = sides[shorter].cut_short
    why = f"those after {ranges[shorter].stop - 1} are in {longer} only: "
    why += f"{shorter} {cut}" if cut else f"{shorter} is shorter or records less often"
    skipped.append(Skipped(what=what, why=why, promised=bool(cut)))
    return skipped


def _every(side: RankSide) -> str:
    return f"{side.every} step" + ("s" if side.every != 1 else "") if side.every else "some steps"

"""Siblings of one run: files that are smaller than they should be, and files that are missing."""

from __future__ import annotations

import statistics
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Certainty, Location, Severity
from everybit.core.rule import rule
from everybit.files.checkpoints.counters import TRAINER_STATE
from everybit.files.checkpoints.names import with_step
from everybit.files.checkpoints.snapshot import holds_data, part_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.finding import Finding
    from everybit.files.checkpoints.contents import Shelf
    from everybit.files.checkpoints.units import Checkpoint

#: The others agree within this share of their median; the odd one departs by more than that.
_AGREE: Final = 0.05
_DEPART: Final = 0.10
_MIN_BYTES: Final = 4096
_LISTED: Final = 16


def find_size_anomalies(
    shelf: Shelf, series: Sequence[Checkpoint], damaged: set[str]
) -> list[Finding]:
    """Return the findings about files whose size departs from that of the same file of siblings.

    Args:
        shelf: The target's files.
        series: Siblings in the order of their steps.
        damaged: Files whose own findings explain their size.
    """
    sizes: dict[str, dict[int, int]] = defaultdict(dict)
    files: dict[tuple[str, int], list[str]] = defaultdict(list)
    for index, checkpoint in enumerate(series):
        gone = _told_missing(checkpoint, damaged)
        for part, name in checkpoint.files.items():
            size = shelf.size_of(name) if holds_data(part) else 0
            key = part_of(part)
            if size and key not in gone:
                sizes[key][index] = sizes[key].get(index, 0) + size
                files[key, index].append(name)
    found = []
    for part, by_index in sizes.items():
        for index, size in by_index.items():
            names = files[part, index]
            # The first save comes before the optimizer has state; what is damaged is told.
            if index == min(by_index) or damaged.intersection(names):
                continue
            others = [
                other
                for at, other in by_index.items()
                if at != index and not damaged.intersection(files[part, at])
            ]
            if len(others) > 2 and others[0] < statistics.median(others[1:]) * (1 - _AGREE):
                others = others[1:]
            usual = statistics.median(others) if len(others) > 1 else 0
            if usual < _MIN_BYTES or max(others) - min(others) > _AGREE * usual:
                continue
            grows = size > usual and index == max(by_index)
            if abs(size - usual) <= _DEPART * usual or grows:
                continue
            twin = files[part, _nearest(by_index, index)]
            finding = _odd_size(shelf, names, twin, size, usual)
            if finding is not None:
                found.append(finding)
    return found


def _told_missing(checkpoint: Checkpoint, damaged: set[str]) -> set[str]:
    """Return the parts of a checkpoint folder of which files are missing, as findings tell."""
    if not checkpoint.is_folder or not checkpoint.name:
        return set()
    above = f"{checkpoint.name}/"
    there = set(checkpoint.files.values())
    gone = {path for path in damaged if path.startswith(above) and path not in there}
    return {part_of(path.removeprefix(above)) for path in gone}


def _nearest(by_index: dict[int, int], index: int) -> int:
    return min((at for at in by_index if at != index), key=lambda at: (abs(at - index), at))


def _odd_size(
    shelf: Shelf, names: list[str], twin: list[str], size: int, usual: float
) -> Finding | None:
    mine = {t.name: t for name in names if (c := shelf.get(name)) for t in c.tensors}
    theirs = {t.name: t for name in twin if (c := shelf.get(name)) for t in c.tensors}
    # Adapters beside full models are no siblings of these.
    if mine and theirs and 2 * len(mine.keys() & theirs.keys()) < min(len(mine), len(theirs)):
        return None
    lacking = [name for name in theirs if name not in mine]
    other = [n for n, t in mine.items() if n in theirs and t.dtype != theirs[n].dtype]
    if lacking:
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        why = f": it lacks {lacking[0]}{more}"
    elif other:
        why = f": {other[0]} is {mine[other[0]].dtype}, not {theirs[other[0]].dtype}"
    else:
        why = ""
    return rule("FIL111").finding(
        f"{names[0]} has {size} bytes, its siblings {usual:.0f}{why}",
        where=Location(path=names[0], tensor=lacking[0] if lacking else None),
        evidence={
            "size_bytes": size,
            "usual_bytes": int(usual),
            **({"num_missing": len(lacking), "missing": lacking[:_LISTED]} if lacking else {}),
            "compared_with": twin[0],
        },
        certainty=Certainty.STRONG if lacking else Certainty.WEAK,
    )


def lacking_parts(series: Sequence[Checkpoint]) -> dict[str, list[str]]:
    """Return the parts that each checkpoint lacks although every sibling around it has them.

    Args:
        series: Siblings in the order of their steps.

    Returns:
        `{checkpoint: [part, ...]}`.
    """
    parts = [
        {part_of(part): part for part in found.files if holds_data(part) or part == TRAINER_STATE}
        for found in series
    ]
    lacking: dict[str, list[str]] = {}
    for index, checkpoint in enumerate(series):
        others = [found for at, found in enumerate(parts) if at != index]
        common = set.intersection(*map(set, others)) if others else set()
        missing = sorted(common - parts[index].keys())
        if missing:
            lacking[checkpoint.name] = [others[-1][part] for part in missing]
    return lacking


def find_lacking(series: Sequence[Checkpoint], damaged: set[str]) -> list[Finding]:
    """Return the finding for parts that the newest checkpoint lacks and all siblings have.

    Older ones are thinned out on purpose; the newest is the one that is resumed from.

    Args:
        series: Siblings in the order of their steps.
        damaged: Files with findings of their own, the missing ones among them.
    """
    if len(series) < 2:
        return []
    newest = series[-1]
    gone = _told_missing(newest, damaged)
    missing = [
        part for part in lacking_parts(series).get(newest.name, ()) if part_of(part) not in gone
    ]
    if not missing:
        return []
    above = f"{newest.name}/" if newest.is_folder else f"{newest.folder}/".lstrip("/")
    if not newest.is_folder:
        # Their parts are patterns; the names follow from those of a sibling.
        missing = [
            with_step(next(c for c in series if part in c.files).files[part], newest.step or 0)
            for part in missing
        ]
        missing = [name.rpartition("/")[2] for name in missing]
    listed = ", ".join(missing[:8])
    return [
        rule("FIL103").finding(
            f"{newest.name} lacks {listed}, which {'all ' if len(series) > 2 else ''}"
            f"its sibling{'s have' if len(series) > 2 else ' has'}",
            where=Location(path=above + missing[0], step=newest.step),
            evidence={"missing": missing[:_LISTED], "num_siblings": len(series) - 1},
            severity=Severity.WARNING,
            certainty=Certainty.STRONG,
            remedy="The save did not end, or saved a part only: resume from a sibling.",
        )
    ]

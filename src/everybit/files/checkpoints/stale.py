"""Content of another sibling: copies under another step, stale files, torn snapshots (FIL106)."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Certainty, Location, Severity
from everybit.core.rule import rule
from everybit.files.checkpoints.snapshot import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from everybit.core.finding import Finding
    from everybit.files.checkpoints.movement import Series
    from everybit.files.checkpoints.snapshot import Key, Snapshot

_LISTED: Final = 16


def find_stale(series: Series) -> list[Finding]:
    """Return the findings about siblings that hold another one's content."""
    found: list[Finding] = []
    copies = set()
    for later in range(1, len(series.snapshots)):
        for earlier in range(later):
            finding = _copy(series, earlier, later)
            if finding is not None:
                found.append(finding)
                hit = series.snapshots[later].step == finding.where.step
                copies.add(later if hit else earlier)
                break
    for pair in range(len(series.pairs)):
        if not {pair, pair + 1} & copies:
            found += _held_back(series, pair)
    told = {finding.where.path for finding in found}
    for later in range(2, len(series.snapshots)):
        for earlier in range(later - 1):
            if not {earlier, later} & copies:
                found += _returned(series, earlier, later, told)
    return found


def _copy(series: Series, earlier: int, later: int) -> Finding | None:
    """Return the finding for a sibling that is another one in everything that training moves."""
    between = series.between(earlier, later)
    one, other = series.snapshots[earlier], series.snapshots[later]
    if between.moved or not between.equal or len(between.equal) < len(other.tensors):
        return None
    trained = between.equal & series.movable
    if len(series.snapshots) > 2 and not trained:
        return None  # nothing here ever moves
    steps = [_steps(snapshot) for snapshot in (one, other)]
    if steps[0] != steps[1] or _stands_still(one):
        return None  # its counters went on: nothing was learned, which is no misplacement
    sure = bool(trained) and bool(steps[0])
    if other.step in steps[1] and one.step not in steps[0]:
        # What both count inside is the later one's own step.
        one, other = other, one
    advice = "" if other.step < one.step else f", or resume from {one.checkpoint.name} and count "
    return rule("FIL106").finding(
        f"{other.checkpoint.name} holds what {one.checkpoint.name} holds, bit for bit, in "
        f"{len(between.equal)} tensors",
        where=Location(path=_first_file(other, between.equal), step=other.checkpoint.step),
        evidence={
            "equal_to": one.checkpoint.name,
            "num_equal": len(between.equal),
            "steps_inside": steps[1][:4],
        },
        severity=Severity.ERROR if sure else Severity.WARNING,
        certainty=Certainty.STRONG if trained else Certainty.WEAK,
        remedy=f"Fetch {other.checkpoint.name} again{advice and advice + 'from its step'}.",
    )


def _steps(snapshot: Snapshot) -> list[float]:
    state = snapshot.state
    found = [max(optimizer.steps) for optimizer in state.optimizers if optimizer.steps]
    return found or [value for _, value in sorted(state.counters.items())]


def _stands_still(snapshot: Snapshot) -> bool:
    """Return whether the updates that follow a checkpoint move nothing: all its rates are zero."""
    rates = snapshot.state.rates
    return bool(rates) and not any(rates)


def _first_file(snapshot: Snapshot, keys: Iterable[Key]) -> str:
    return min(snapshot.tensors[key].contents.name for key in keys)


def _held_back(series: Series, pair: int) -> Iterator[Finding]:
    """Find files, or tensors, that a later sibling took over from the one before it."""
    keys, sure = series.held_back(pair)
    before, after = series.snapshots[pair], series.snapshots[pair + 1]
    keys = frozenset(k for k in keys if after.tensors[k].role is not Role.AVERAGE)
    if not keys or not series.pairs[pair].moved or _stands_still(before):
        return
    movable = series.movable
    by_file: dict[str, set[Key]] = defaultdict(set)
    for key in movable & after.tensors.keys():
        if after.tensors[key].role is not Role.AVERAGE and series.moves_visibly(key):
            by_file[after.tensors[key].contents.name].add(key)
    num_pairs = len(series.pairs)
    for name, trained in sorted(by_file.items()):
        stale = trained & keys
        if not stale:
            continue
        optimizer = {k for k in trained if after.tensors[k].role is Role.OPTIMIZER}
        if stale == trained and len(by_file) > 1:
            yield _stale_file(series, pair, name, stale, sure=sure)
        elif optimizer and stale in (optimizer, trained - optimizer) and stale != trained:
            yield _other_step(before, after, name, stale, is_optimizer=stale == optimizer)
        elif len(stale) < len(trained):
            yield _torn(before, after, name, stale, trained, sure=sure, num_pairs=num_pairs)


def _stale_file(series: Series, pair: int, name: str, keys: set[Key], *, sure: bool) -> Finding:
    before, after = series.snapshots[pair], series.snapshots[pair + 1]
    twin = before.tensors[min(keys)].contents.name
    return rule("FIL106").finding(
        f"{name} holds what {twin} holds, bit for bit, while the rest of "
        f"{after.checkpoint.name} moved on",
        where=Location(path=name, tensor=min(keys).name, step=after.checkpoint.step),
        evidence={
            "equal_to": twin,
            "num_equal": len(keys),
            "num_moved": len(series.pairs[pair].moved),
            "moved_before_and_after": sure,
        },
        certainty=Certainty.STRONG,
        remedy=f"Fetch {name} again; else resume from {before.checkpoint.name}.",
    )


def _other_step(
    before: Snapshot, after: Snapshot, name: str, keys: set[Key], *, is_optimizer: bool
) -> Finding:
    what, rest = ("optimizer", "weights") if is_optimizer else ("weights", "optimizer")
    return rule("FIL115").finding(
        f"{name}: its {what} {'is' if is_optimizer else 'are'} bit for bit that of "
        f"{before.checkpoint.name}, its {rest} moved on",
        where=Location(path=name, tensor=min(keys).name, step=after.checkpoint.step),
        evidence={"equal_to": before.checkpoint.name, "num_equal": len(keys)},
        certainty=Certainty.STRONG,
        remedy=f"Resume from {before.checkpoint.name}: there both are of one step.",
    )


def _torn(
    before: Snapshot,
    after: Snapshot,
    name: str,
    stale: set[Key],
    trained: set[Key],
    *,
    sure: bool,
    num_pairs: int,
) -> Finding:
    listed = sorted(stale, key=lambda key: after.tensors[key].tensor.start)
    first = after.tensors[listed[0]].tensor
    more = f" and {len(listed) - 1} more" if len(listed) > 1 else ""
    certainty = Certainty.STRONG if sure or num_pairs > 2 else Certainty.WEAK
    return rule("FIL106").finding(
        f"{name} is torn: {first.name}{more} {'are' if more else 'is'} bit for bit as in "
        f"{before.checkpoint.name}, while {len(trained) - len(stale)} others moved on",
        where=Location(
            path=name,
            tensor=first.name,
            byte_range=first.byte_ranges[0] if first.byte_ranges else None,
            step=after.checkpoint.step,
        ),
        evidence={
            "equal_to": before.checkpoint.name,
            "num_equal": len(stale),
            "num_moved": len(trained) - len(stale),
            "tensors": [key.name for key in listed[:_LISTED]],
            "moved_before_and_after": sure,
        },
        severity=Severity.ERROR if sure else Severity.WARNING,
        certainty=certainty,
        remedy=f"Resume from {before.checkpoint.name}; wait for asynchronous saves to end before "
        f"the weights move again.",
    )


def _returned(series: Series, earlier: int, later: int, told: set[str | None]) -> Iterator[Finding]:
    """Find files that equal those of a sibling further back, with others in between."""
    between = series.between(earlier, later)
    one, other = series.snapshots[earlier], series.snapshots[later]
    if not between.moved:
        return
    by_file: dict[str, set[Key]] = defaultdict(set)
    for key in series.movable & other.tensors.keys():
        by_file[other.tensors[key].contents.name].add(key)
    changed = {key for pair in series.pairs[earlier:later] for key in pair.moved}
    for name, trained in sorted(by_file.items()):
        if not trained <= between.equal or not trained <= changed or len(by_file) < 2:
            continue
        twin = one.tensors[min(trained)].contents.name
        if name in told or twin in told:
            continue
        told.add(name)
        yield rule("FIL106").finding(
            f"{name} holds what {twin} holds, bit for bit, and it was another one in between: one "
            f"of the two lies under the wrong step",
            where=Location(path=name, tensor=min(trained).name, step=other.checkpoint.step),
            evidence={"equal_to": twin, "num_equal": len(trained)},
            certainty=Certainty.STRONG,
            remedy=f"Fetch {name} and {twin} again.",
        )

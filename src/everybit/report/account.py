"""The accounts of all ranks and attempts as one: coverage and numbers of a whole run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from everybit.core.verdict import Checked, Coverage, Skipped
from everybit.ledger import Liveness

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from everybit.ledger import LogReader

#: Entries and numbers that say how much there is, not how often it was done: ranks and attempts of
#: one run hold the same tensors, so they do not add up.
LEVELS: Final = frozenset({"tensors under marks", "tensors", "bytes"})
#: More logs than this are counted in an entry, not named.
_MAX_NAMED = 4


def account_of_logs(logs: Iterable[tuple[LogReader, bool]]) -> Coverage:
    """Add up what the logs say was checked, and tell what none of them can say.

    Args:
        logs: Each log, and whether it is its rank's newest.
    """
    checked: dict[str, int] = {}
    skipped: dict[tuple[str, str, bool], list[str]] = {}
    seen = False
    for log, newest in logs:
        seen = True
        own, told = log.coverage, _untold(log, newest=newest)
        for item in own.checked if own else ():
            before = checked.get(item.what, 0)
            level = item.what in LEVELS
            checked[item.what] = max(before, item.count) if level else before + item.count
        for missed in (*(own.skipped if own else ()), *told):
            key = (missed.what, missed.why, missed.promised)
            skipped.setdefault(key, []).append(name_log(log))
    if not seen:
        skipped["every check of the guard", "the run folder holds no log", True] = []
    return Coverage(
        checked=tuple(Checked(what=what, count=count) for what, count in checked.items()),
        skipped=tuple(
            Skipped(what=what, why=_with_names(why, names), promised=promised)
            for (what, why, promised), names in skipped.items()
        ),
    )


def name_log(log: LogReader) -> str:
    """Return the log's name in words: its rank, and its attempt where it is not the first."""
    return f"rank {log.rank}, attempt {log.attempt}" if log.attempt else f"rank {log.rank}"


def merge_stats(all_stats: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Add up the numbers of several logs: counts and times are sums, other numbers the highest.

    So are levels (`tensors`, `bytes` under marks), which ranks and attempts share.

    >>> merge_stats([{"seconds": 1.0, "guard_share": 0.01}, {"seconds": 2.5, "guard_share": 0.02}])
    {'seconds': 3.5, 'guard_share': 0.02}
    """
    merged: dict[str, Any] = {}
    for stats in all_stats:
        for key, value in stats.items():
            before = merged.get(key)
            if isinstance(value, bool):
                merged[key] = bool(before) or value
            elif not isinstance(value, int | float) or not isinstance(before, int | float):
                merged.setdefault(key, value)
            elif key in LEVELS:
                merged[key] = max(before, value)
            elif isinstance(value, int) or key.endswith(("seconds", "bytes", "_s")):
                merged[key] = before + value
            else:
                merged[key] = max(before, value)
    return merged


def tell_ranges(ranges: Iterable[tuple[int, int, int]]) -> str:
    """Return the steps of each attempt in words: attempts number theirs anew, or go on.

    Args:
        ranges: Attempt, first and last step on record, of each log that has any.

    >>> tell_ranges([(0, 0, 9), (1, 0, 4)]), tell_ranges([(0, 0, 9), (0, 0, 8)])
    ('0 to 9, then 0 to 4', '0 to 9')
    """
    spans: dict[int, tuple[int, int]] = {}
    for attempt, first, last in ranges:
        low, high = spans.get(attempt, (first, last))
        spans[attempt] = (min(low, first), max(high, last))
    return ", then ".join(f"{low:,} to {high:,}" for _, (low, high) in sorted(spans.items()))


def _untold(log: LogReader, *, newest: bool) -> list[Skipped]:
    """Return what a log cannot answer for: what it promised and shows no account of."""
    missing = []
    if log.alive:
        missing.append(Skipped(what="the rest of the run", why="it is still going"))
    elif log.coverage is None:
        why = "the run ended before the guard wrote it"
        if log.liveness is Liveness.UNSEEN:
            why = "none is on record, and the process cannot be seen from here"
        elif not newest:
            why = "an earlier attempt ended before the guard wrote it"
        missing.append(Skipped(what="the guard's account of its checks", why=why))
    if not log.num_steps:
        missing.append(Skipped(what="the steps", why="none is on record"))
    if log.damage:
        missing.append(Skipped(what="the damaged parts of the record", why="cannot be read"))
    return missing


def _with_names(why: str, names: list[str]) -> str:
    # One log needs no name: it is the run.
    if len(names) < 2:
        return why
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return f"{why} ({'; '.join(names[:_MAX_NAMED])}{more})"

"""What a page needs of a run beside its timelines, gathered in the same pass over each log."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from everybit.ledger import Liveness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from everybit.core.link import Link
    from everybit.ledger import LogReader, RunReader
    from everybit.report.timelines import Timelines


class State(StrEnum):
    """How a log stands."""

    RUNNING = "still going"
    CLEAN = "ended cleanly"
    EXCEPTION = "ended by an exception"
    SIGNAL = "ended by a signal"
    EXIT = "ended with an exit code"
    STOPPED = "stopped by its policy"
    KILLED = "killed"
    UNSEEN = "no end on record"


@dataclass(slots=True, kw_only=True)
class LogSummary:
    """One log: a rank's attempt.

    Attributes:
        rank: Rank of the process.
        attempt: Attempt, from 0.
        header: Command, environment, configuration, process.
        state: How it stands.
        detail: What the end record says beyond that.
        newest: Whether no later attempt of the rank is on record.
        paused: Whether the process waits to be released.
        torn: Whether the last frame is cut.
        damaged: Whether any part of the log is damaged.
        num_steps: Steps on record.
        first_step: First of them, None with none.
        last_step: Last of them.
        started_s: Wall clock of the first step, seconds since the epoch.
        ended_s: Wall clock of the last step.
        seconds: Sum of the step times.
        guard_seconds: Part of it that the guard used.
        skipped: Steps whose update did not happen.
        tainted: Steps in which damaged bits were used.
        links: Links of which digests are on record.
    """

    rank: int
    attempt: int
    header: Mapping[str, Any]
    state: State
    detail: str = ""
    newest: bool = True
    paused: bool = False
    torn: bool = False
    damaged: bool = False
    num_steps: int = 0
    first_step: int | None = None
    last_step: int | None = None
    started_s: float = math.nan
    ended_s: float = math.nan
    seconds: float = 0.0
    guard_seconds: float = 0.0
    skipped: int = 0
    tainted: int = 0
    links: set[Link] = field(default_factory=set)


def iterate_logs(run: RunReader) -> Iterator[LogReader]:
    """Yield every log of a run: ranks in order, the attempts of each in order."""
    for rank in run.ranks:
        yield from run.logs(rank)


def log_state(log: LogReader) -> State:
    """Return how a log stands: its end record, or what its absence means."""
    if log.end is not None:
        return State[log.end.reason.name]
    return _UNENDED[log.liveness]


# A process of another machine or container cannot be told from a killed one.
_UNENDED: Final = {
    Liveness.RUNNING: State.RUNNING,
    Liveness.GONE: State.KILLED,
    Liveness.UNSEEN: State.UNSEEN,
}


#: Steps between two reports of progress.
PROGRESS_EVERY: Final = 20_000


def summarise_log(
    log: LogReader,
    timelines: Timelines,
    *,
    newest: bool = True,
    paused: bool = False,
    progress: Callable[[int], None] | None = None,
) -> LogSummary:
    """Read a log once, front to back; its values go to the timelines.

    Args:
        log: The log.
        timelines: Where the values of its steps go.
        newest: Whether no later attempt of the rank is on record.
        paused: Whether the process waits to be released.
        progress: Is told the number of steps read, every `PROGRESS_EVERY` of them.
    """
    end = log.end
    summary = LogSummary(
        rank=log.rank,
        attempt=log.attempt,
        header=log.header,
        state=log_state(log),
        detail=_detail(end.code, end.detail) if end is not None else "",
        newest=newest,
        paused=paused,
        torn=log.torn,
        links=log.links,
    )
    lines = timelines.of(log, older=not newest)
    steps = log.step_range
    if steps:
        summary.first_step, summary.last_step = steps.start, steps.stop - 1
    for record in log.facts():
        summary.num_steps += 1
        if progress is not None and summary.num_steps % PROGRESS_EVERY == 0:
            progress(summary.num_steps)
        if summary.num_steps == 1:
            summary.started_s = record.time_s
        summary.ended_s = record.time_s
        summary.skipped += record.skipped
        summary.tainted += record.tainted
        if math.isfinite(record.duration_s) and record.duration_s > 0:
            summary.seconds += record.duration_s
            if math.isfinite(record.guard_s):
                summary.guard_seconds += record.guard_s
        timelines.take(lines, record)
    # After the steps: reading them may still find damage.
    summary.damaged = bool(log.damage)
    return summary


def _detail(code: int, detail: str) -> str:
    if code and detail:
        return f"{code}: {detail}"
    return detail or (str(code) if code else "")

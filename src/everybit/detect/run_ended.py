"""RUN151 and RUN152: did the run end well, and can its record be relied on."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

from everybit.core.finding import Certainty, Finding, Location, Severity
from everybit.core.rule import rule
from everybit.ledger import EndReason, Liveness

if TYPE_CHECKING:
    from everybit.ledger import Damage, LogReader, RunReader


def judge_end(log: LogReader, *, resumed: bool = False) -> Finding | None:
    """Say how a log ended, where that was not well.

    Args:
        log: One rank's log of one attempt.
        resumed: A later attempt of the same rank took over: then it is worth a note only.

    Returns:
        A RUN151 finding; None after a clean end, while the run goes on, and where the end of the
        log is damaged (RUN152 tells of that, and what the log ended with is not known).
    """
    end, evidence = log.end, _evidence(log)
    severity: Severity | None = None
    certainty: Certainty | None = None
    if end is not None:
        # A policy's stop is told by the finding that it stopped at.
        if end.reason in (EndReason.CLEAN, EndReason.STOPPED):
            return None
        if end.reason is EndReason.EXIT and end.code == 0:
            return None
        evidence |= {"reason": str(end.reason), "code": end.code, "detail": end.detail}
        if end.explained:
            evidence["explained"] = end.explained
        if end.reason is EndReason.EXCEPTION:
            how = f"ended with an exception{end.detail and ': '}{end.detail}"
        elif end.reason is EndReason.SIGNAL:
            how = f"was ended by {end.detail or _signal_name(end.code)}"
        else:
            how, severity = f"ended itself with exit code {end.code}", Severity.NOTE
    else:
        liveness = log.liveness
        if liveness is Liveness.RUNNING or log.tail_damaged:
            return None
        evidence["reason"] = None
        how = "has no end record: its process was killed, or could not write to the disk any more"
        if liveness is Liveness.UNSEEN:
            how = (
                "has no end record, and its process cannot be seen from here (another machine or "
                "container): it was killed, or it still runs there"
            )
            severity, certainty = Severity.WARNING, Certainty.WEAK
    last = evidence["last_step"]
    reached = f"the last step on record is {last}" if last is not None else "no step is on record"
    if resumed:
        severity = Severity.NOTE
    explained = str(evidence.get("explained", ""))
    return rule("RUN151").finding(
        f"rank {log.rank}, attempt {log.attempt} {how}; {reached}",
        where=Location(path=log.path.name, rank=log.rank, step=log.step_range.stop),
        evidence=evidence,
        remedy=explained,
        severity=severity,
        certainty=certainty,
    )


def judge_damage(run: RunReader) -> list[Finding]:
    """Return a RUN152 finding for each damaged place of a run's record."""
    places: dict[tuple[str, tuple[int, int]], list[Damage]] = {}
    for damage in run.damage:
        places.setdefault((damage.path, damage.byte_range), []).append(damage)
    return [_damaged(found) for found in places.values()]


def _damaged(found: list[Damage]) -> Finding:
    place = found[0]
    what = "; ".join(damage.what for damage in found)
    start, end = place.byte_range
    at = f", bytes {start} to {end}" if end > start else ""
    return rule("RUN152").finding(
        f"{place.path}{at}: {what}{_spared(place)}",
        where=Location(path=place.path, byte_range=place.byte_range, rank=place.rank),
        evidence={"what": what, "step_before": place.step_before, "step_after": place.step_after},
    )


def _spared(place: Damage) -> str:
    before, after = place.step_before, place.step_after
    if before is not None and after is not None:
        return f"; intact up to step {before} and again from step {after}"
    if before is not None:
        return f"; intact up to step {before}"
    if after is not None:
        return f"; intact from step {after}"
    return ""


def _evidence(log: LogReader) -> dict[str, Any]:
    steps = log.step_range
    return {
        "attempt": log.attempt,
        "last_step": steps[-1] if steps else None,
        "torn": log.torn,
        "pid": log.header.get("pid"),
    }


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

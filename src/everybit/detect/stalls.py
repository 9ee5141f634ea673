"""RUN153: a rank's process stood still."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.core.finding import Finding, Location
from everybit.core.rule import rule

if TYPE_CHECKING:
    from everybit.ledger import LogReader

#: The kind of observation that the guard records.
KIND = "stood-still"


def judge_stalls(log: LogReader) -> list[Finding]:
    """Return a finding for each time that a log's process stood still.

    Args:
        log: One rank's log of one attempt.
    """
    found = []
    for observation in log.observations:
        seconds = observation.data.get("seconds")
        if observation.kind != KIND or not isinstance(seconds, (int, float)):
            continue
        found.append(
            rule("RUN153").finding(
                f"rank {log.rank} stood still for {seconds:.0f} s at step {observation.step}",
                where=Location(rank=log.rank, step=observation.step),
                evidence={"seconds": round(seconds, 1), "attempt": log.attempt},
            )
        )
    return found

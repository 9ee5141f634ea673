"""The evaluations of two run folders, read for a comparison sample by sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everybit.core.link import Link

if TYPE_CHECKING:
    from everybit.diff.evaluations import Evaluation
    from everybit.ledger import LogReader, RunReader


def compare_run_evaluations(a: RunReader, b: RunReader) -> dict[str, Any] | None:
    """Return how the first ranks' evaluations compare; None where either run trained."""
    from everybit.diff.evaluations import compare_evaluations

    if not (a.ranks and b.ranks):
        return None
    logs = a.log(a.ranks[0]), b.log(b.ranks[0])
    if not all(Link.OUTPUT in log.links for log in logs):
        return None
    return compare_evaluations(*(_evaluation(log) for log in logs))


def _evaluation(log: LogReader) -> Evaluation:
    from everybit.diff.evaluations import Evaluation

    answers: dict[int, Any] = {}
    modes: list[str] = []
    for each in log.observations:
        if each.kind == "answers":
            answers[each.step] = each.data.get("of", {})
            if each.data.get("mode") not in (None, *modes):
                modes.append(str(each.data["mode"]))
    starts = [table for _, tables in log.inits() for table in tables]
    return Evaluation(
        starts=starts,
        steps=log.steps(),
        answers=answers,
        modes=", then ".join(modes) or None,
        findings=log.findings,
    )

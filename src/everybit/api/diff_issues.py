"""Known issues that give wrong results, of the versions of one of two runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from everybit.core.finding import Severity
from everybit.diff.issues import KnownIssue
from everybit.host.known_issues import issues_of
from everybit.host.versions import entry

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from everybit.core.finding import Finding
    from everybit.host.known_issues import Match


def one_sided(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[tuple[str, Match]]:
    """Return the known issues that one environment record alone falls under, with its side."""
    sides = {"A": issues_of(a), "B": issues_of(b)}
    named = {side: {match.issue.id for match in found} for side, found in sides.items()}
    return [
        (side, match)
        for side, other in (("A", "B"), ("B", "A"))
        for match in sides[side]
        if match.issue.id not in named[other]
    ]


def as_values(
    found: list[tuple[str, Match]], a: Mapping[str, Any], b: Mapping[str, Any]
) -> tuple[KnownIssue, ...]:
    """Return them in the form that a comparison of runs is given; sure ones in front."""
    values = [
        KnownIssue(
            side=side,
            id=match.issue.id,
            entry=match.entry,
            library=match.issue.library,
            version=match.version,
            wrong=match.issue.wrong,
            ops=match.issue.ops,
            before=entry(a, match.entry),
            after=entry(b, match.entry),
            unsure=match.unsure,
        )
        for side, match in found
    ]
    return tuple(sorted(values, key=lambda each: bool(each.unsure)))


def findings_of(found: list[tuple[str, Match]], *, parted: bool) -> tuple[Finding, ...]:
    """Return the ENV903 findings; notes where the runs agree in all that they hold."""
    findings = (match.finding(side) for side, match in found)
    if parted:
        return tuple(findings)
    return tuple(replace(each, severity=Severity.NOTE) for each in findings)

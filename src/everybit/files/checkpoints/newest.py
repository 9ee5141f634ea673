"""Which checkpoint to resume from: the newest whole one, and what is wrong with newer ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from everybit.core.finding import Severity
from everybit.files.checkpoints.names import is_unfinished
from everybit.files.checkpoints.sizes import lacking_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.finding import Finding
    from everybit.core.verdict import Skipped
    from everybit.files.checkpoints.pointers import Pointer
    from everybit.files.checkpoints.units import Checkpoint

_LISTED: Final = 64
#: Rules that say nothing about whether a file is the right one and whole.
SAYS_NOTHING: Final = frozenset({"FIL109", "FIL112", "FIL113", "FIL117"})
#: Evidence that only findings about averages that do not move have.
NEVER_MOVED: Final = "pairs_without_movement"
_CANNOT: Final = "cannot be read"


def name_newest(
    checkpoints: Sequence[Checkpoint],
    series: Sequence[Sequence[Checkpoint]],
    findings: Sequence[Finding],
    pointers: Sequence[Pointer],
    skipped: Sequence[Skipped],
) -> dict[str, Any]:
    """Return what a verdict's numbers say of the checkpoints in a folder.

    Args:
        checkpoints: All of them.
        series: Those with siblings, each sorted by step.
        findings: All findings.
        pointers: Files that name one of them.
        skipped: Checks that did not run.

    Returns:
        `newest_whole` (None where none is), `whole` (newest first), `not_whole`
        (`{name: why}`, newest first) of the longest series; `latest` where pointers name one.
        Empty for a folder without siblings or pointers.
    """
    told: dict[str, Any] = {}
    group = max(series, key=len, default=())
    problems = {
        found.name: why
        for found in {id(c): c for c in (*checkpoints, *group)}.values()
        if (why := _problem(found, findings, skipped))
    }
    if group:
        for name, parts in lacking_parts(group).items():
            problems.setdefault(name, f"lacks {', '.join(parts[:4])}")
        ordered = list(reversed(group))
        whole = [found.name for found in ordered if found.name not in problems]
        told["newest_whole"] = whole[0] if whole else None
        told["whole"] = whole[:_LISTED]
        told["not_whole"] = {
            found.name: problems[found.name]
            for found in ordered[:_LISTED]
            if found.name in problems
        }
    latest = {}
    for pointer in pointers:
        if pointer.target is None:
            continue
        why = "is not there" if not pointer.there else _why(pointer.target, problems)
        latest[pointer.name] = {
            "names": pointer.target,
            "whole": not why,
            **({"why": why} if why else {}),
        }
    if latest:
        told["latest"] = latest
    return told


def _why(target: str, problems: dict[str, str]) -> str:
    return next((why for name, why in problems.items() if f"{name}/".startswith(f"{target}/")), "")


def _problem(
    checkpoint: Checkpoint, findings: Sequence[Finding], skipped: Sequence[Skipped]
) -> str:
    """Return why a checkpoint is not whole; empty where nothing says so."""
    if is_unfinished(checkpoint.name.rpartition("/")[2]):
        return "its name says that the save has not ended"
    names = set(checkpoint.files.values())
    above = f"{checkpoint.name}/" if checkpoint.is_folder and checkpoint.name else None
    for finding in findings:
        place = finding.where.path or ""
        own = place in names or (above is not None and place.startswith(above))
        # An average that never moved is in no sibling better than in another.
        aside = finding.rule in SAYS_NOTHING or NEVER_MOVED in finding.evidence
        if own and finding.severity is not Severity.NOTE and not aside:
            return f"{finding.rule} {finding.message}"[:300]
    for item in skipped:
        if item.promised and item.what in names and _CANNOT in item.why:
            return f"{item.what} {item.why}"[:300]
    return ""

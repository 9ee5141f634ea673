"""One damage that two look-ups each tell for themselves, told once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.finding import Finding


def told_once(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings without those that another one of them says already.

    A file that neither the manifest nor a bundle lists; two files that hold each other's content.
    """
    told: set[str | None] = set()
    holds = {
        f.where.path: (PurePosixPath(f.where.path).parent / str(f.evidence["holds"])).as_posix()
        for f in findings
        if f.rule == "FIL106" and f.where.path and {"holds", "listed_by"} <= f.evidence.keys()
    }
    kept = []
    for finding in findings:
        path = finding.where.path
        other = holds.get(path or "") if finding.rule == "FIL106" else None
        if path is not None and other is not None and holds.get(other) == path:
            if path < other:
                kept.append(_exchanged(finding, path, other))
            continue
        if finding.rule != "FIL109" or path not in told:
            kept.append(finding)
        if finding.rule == "FIL109":
            told.add(path)
    return kept


def _exchanged(finding: Finding, path: str, other: str) -> Finding:
    return replace(
        finding,
        message=f"{path} and {other} are exchanged: each holds what "
        f"{finding.evidence['listed_by']} places in the other",
        remedy=f"Exchange the names of {path} and {other}, or fetch both again.",
    )

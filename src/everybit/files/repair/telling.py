"""Findings of a repair: the damage as `verify` tells it, and what becomes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from everybit.core.finding import Certainty, Severity
from everybit.files.repair.mending import Evidence

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.core.finding import Finding
    from everybit.files.repair.mending import Mend, Mending

_MAX_WITNESSES = 4


def tell(mending: Mending, *, written: bool, kept: Path | None = None) -> list[Finding]:
    """Return the findings of one file: put back, to be put back, or lost.

    What was put back is a note; everything else keeps its severity.

    Args:
        mending: The file's repair.
        written: Whether it was carried out.
        kept: Where the damaged original was kept.
    """
    return [_tell(finding, mending, written=written, kept=kept) for finding in mending.findings]


def _tell(finding: Finding, mending: Mending, *, written: bool, kept: Path | None) -> Finding:
    spans = _spans(finding)
    mends = [mend for mend in mending.mends if _touches((mend.start, mend.end), spans)]
    lost = [span for span in mending.lost if _touches(span, spans)]
    resized = not mends and mending.whole
    if mending.why_lost and (lost or not mends):
        partly = ""
        if mends:
            how = "was put back" if written else "can be put back"
            how = how if mending.path.exists() else "could be, but no part of a file is written"
            partly = f"; of it {describe_mends(mends)} {how}"
        return replace(
            finding,
            message=f"{finding.message}. Not repaired: {mending.why_lost}{partly}",
            evidence={**finding.evidence, **_evidence(mends)},
            remedy="Restore the file from another copy (--from COPY), or go back to the newest "
            "whole checkpoint.",
        )
    what = (
        f"{mending.size_bytes:,} bytes is its sealed size, and all of them hold"
        if resized
        else describe_mends(mends)
    )
    evidence = {**finding.evidence, **_evidence(mends)}
    if not written:
        return replace(
            finding,
            message=f"{finding.message}. Can be put back: {what}",
            evidence=evidence,
            remedy="Run the same command with --write.",
        )
    if kept is not None:
        evidence["kept"] = kept.name
    return replace(
        finding,
        severity=Severity.NOTE,
        message=f"{finding.message}. Put back: {what}",
        evidence=evidence,
        remedy="Find out what damaged it: a disk, memory, a copy."
        + (f" {kept.name} can be removed." if kept is not None else ""),
    )


def describe_mends(mends: list[Mend]) -> str:
    """Return what is put back, from what, and how sure, in a clause.

    Mends of the same evidence are told together.
    """
    groups: dict[tuple[Evidence, str, Certainty], list[Mend]] = {}
    for mend in mends:
        groups.setdefault((mend.evidence, mend.source, mend.certainty), []).append(mend)
    parts = []
    for (evidence, source, certainty), group in groups.items():
        counts = [m.num_bytes if m.num_bytes is not None else m.end - m.start for m in group]
        total = sum(counts)
        amount = "1 byte" if total == 1 else f"{total:,} bytes"
        place = f" {source}" if source and evidence in (Evidence.COPY, Evidence.PARITY) else ""
        parts.append(f"{amount} from {evidence}{place} ({certainty})")
    return "; ".join(parts)


def _evidence(mends: list[Mend]) -> dict[str, Any]:
    if not mends:
        return {}
    told: dict[str, Any] = {
        "repaired_from": sorted({str(mend.evidence) for mend in mends}),
        "repair_certainty": str(max((mend.certainty for mend in mends), key=list(Certainty).index)),
    }
    witnesses = list(dict.fromkeys(text for mend in mends for text in mend.witnesses))
    if witnesses:
        told["witnesses"] = witnesses[:_MAX_WITNESSES]
    against = list(dict.fromkeys(text for mend in mends for text in mend.against))
    if against:
        told["against"] = against[:_MAX_WITNESSES]
    chances = [mend.chance for mend in mends if mend.chance is not None]
    if chances:
        told["chance_of_mistake"] = max(chances)
    return told


def _spans(finding: Finding) -> list[tuple[int, int]]:
    if finding.where.byte_ranges:
        return list(finding.where.byte_ranges)
    return [finding.where.byte_range] if finding.where.byte_range else []


def _touches(span: tuple[int, int], spans: list[tuple[int, int]]) -> bool:
    """Return whether a range meets one of others; a finding without a range means all."""
    return not spans or any(span[0] < end and start < span[1] for start, end in spans)

"""The verdict in one sentence, the same on the terminal and on the page."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from everybit.core.finding import Severity
from everybit.core.verdict import Status
from everybit.report.place import describe_place
from everybit.report.safe_text import plural, printable, printable_message

if TYPE_CHECKING:
    from everybit.core.verdict import Verdict


def verdict_sentence(verdict: Verdict) -> str:
    """Return what the verdict comes to, in one sentence without the status word.

    >>> from everybit.core.verdict import Checked, Coverage, Verdict
    >>> coverage = Coverage(checked=(Checked(what="tensors", count=12),))
    >>> verdict_sentence(Verdict(command="verify", target=("m.pt",), coverage=coverage))
    'nothing was found in what was checked: 12 tensors'
    """
    headline = _headline(verdict)
    if verdict.status is Status.FINDINGS:
        return (
            _with_missed(f"{count_findings(verdict)}: {headline}", verdict)
            if headline
            else (_findings(verdict))
        )
    missed = [item for item in verdict.coverage.skipped if item.promised]
    if missed:
        first = f"{printable(missed[0].what)} ({printable(missed[0].why)})"
        more = f" and {len(missed) - 1} more" if len(missed) > 1 else ""
        found = headline or "nothing was found"
        return f"{found}, but not everything could be checked: {first}{more}"
    if headline:
        return headline
    checked = ", ".join(
        f"{item.count:,} {printable(item.what)}" for item in verdict.coverage.checked[:6]
    )
    if not checked:
        return "nothing was found, and no check is on record"
    return f"nothing was found in what was checked: {checked}"


def count_findings(verdict: Verdict) -> str:
    """Return how many findings of each severity there are, the gravest first.

    >>> from everybit.core.verdict import Verdict
    >>> count_findings(Verdict(command="verify", target=()))
    'no findings'
    """
    counts = Counter(finding.severity for finding in verdict.findings)
    parts = [plural(counts[level], level) for level in reversed(Severity) if counts[level]]
    if not parts:
        return "no findings"
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _findings(verdict: Verdict) -> str:
    gravest = verdict.findings[0]
    lead = "" if len(verdict.findings) == 1 else ", the first of them"
    text = (
        f"{count_findings(verdict)}{lead}: {gravest.rule} {printable(gravest.slug)}"
        f" at {describe_place(gravest.where)}"
    )
    return _with_missed(text, verdict)


def _with_missed(text: str, verdict: Verdict) -> str:
    missed = sum(item.promised for item in verdict.coverage.skipped)
    return f"{text}; {plural(missed, 'promised check')} did not run" if missed else text


def _headline(verdict: Verdict) -> str:
    """Return the headline of a comparison of files, or "" for any other verdict."""
    return printable_message((verdict.comparison or {}).get("headline", ""), 1000)

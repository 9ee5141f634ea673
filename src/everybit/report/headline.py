"""The page's answer in one sentence, in each of its languages."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from everybit.core.errors import UsageError
from everybit.core.finding import Location, Severity
from everybit.core.rule import rule
from everybit.core.verdict import Status
from everybit.report.catalogue_record import RULE_TITLES
from everybit.report.chain import healed_in_time
from everybit.report.place_html import tell_place
from everybit.report.safe_text import printable
from everybit.report.words import Said, listed, recorded, say

if TYPE_CHECKING:
    from everybit.core.finding import Finding
    from everybit.core.verdict import Verdict

_MAX_CHECKED: Final = 4


def tell_verdict(verdict: Verdict) -> Said:
    """Return what the verdict comes to."""
    missed = [item for item in verdict.coverage.skipped if item.promised]
    if verdict.status is Status.FINDINGS:
        healed = [finding for finding in verdict.findings if healed_in_time(finding)]
        left = [finding for finding in verdict.findings if not healed_in_time(finding)]
        lead = (left or healed)[0]
        key = "sentence.one" if len(verdict.findings) == 1 else "sentence.many"
        return say(
            "sentence.left" if left and healed else key,
            counts=_with_healed(verdict, len(healed)),
            title=tell_name(lead),
            place=tell_place(_short(lead.where)),
        )
    if missed:
        first = say(
            "reason",
            what=recorded(printable(missed[0].what)),
            why=recorded(printable(missed[0].why)),
        )
        if len(missed) > 1:
            first = say("sentence.inconclusive.more", missed=first, n=len(missed) - 1)
        return say("sentence.inconclusive", missed=first)
    checked = [
        Said(f"{item.count:,} {what.en}", f"{item.count:,} {what.zh}")
        for item in verdict.coverage.checked[:_MAX_CHECKED]
        for what in [recorded(printable(item.what))]
    ]
    if not checked:
        return say("sentence.unchecked")
    return say("sentence.clean", checked=listed(checked))


def tell_missed(verdict: Verdict) -> Said | None:
    """Return how many promised checks did not run, where the answer does not say it already."""
    missed = sum(item.promised for item in verdict.coverage.skipped)
    if not missed or verdict.status is not Status.FINDINGS:
        return None
    return say("sentence.missed", n=missed)


def _with_healed(verdict: Verdict, healed: int) -> Said:
    counts = tell_counts(verdict)
    if not healed:
        return counts
    total = len(verdict.findings)
    key = "sentence.healed" if healed == total else "sentence.healed.some"
    if total == 1:
        key = "sentence.healed.one"
    return say(key, counts=counts, n=healed)


def _short(where: Location) -> Location:
    """Return as much of a place as a headline needs; its card tells the rest."""
    kept = {key: getattr(where, key) for key in _HEADLINE_KEYS}
    return Location(**kept) if any(value is not None for value in kept.values()) else where


_HEADLINE_KEYS: Final = ("path", "step", "rank", "module", "parameter", "tensor")


def tell_counts(verdict: Verdict) -> Said:
    """Return how many findings of each severity there are, the gravest first."""
    counts = Counter(finding.severity for finding in verdict.findings)
    return listed(
        [say(f"count.{level}", n=counts[level]) for level in reversed(Severity) if counts[level]]
    )


def tell_name(finding: Finding) -> Said:
    """Return a finding's name in a few words: its slug's."""
    name = printable(finding.slug).replace("-", " ")
    return Said(name, RULE_TITLES.get(finding.rule, name))


def tell_title(finding: Finding) -> Said:
    """Return what a finding's rule says, without its full stop."""
    try:
        title = rule(finding.rule).title.rstrip(".")
    except UsageError:
        title = printable(finding.slug).replace("-", " ")
    return Said(title, RULE_TITLES.get(finding.rule, title))

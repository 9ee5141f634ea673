"""How each link of a run's chain stands: broken, tested, recorded, or not watched."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Severity
from everybit.core.link import Link
from everybit.report.words import Said, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from everybit.core.finding import Finding
    from everybit.core.verdict import Coverage
    from everybit.report.run_summary import LogSummary


class Standing(StrEnum):
    """What is known of a link."""

    BROKEN = "broken"
    DOUBTFUL = "doubtful"
    TESTED = "tested"
    RECORDED = "recorded"
    UNWATCHED = "unwatched"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkState:
    """A link, how it stands, more words for it, and the finding to go to (its id, or nothing)."""

    link: Link
    standing: Standing
    words: Said | None = None
    finding: str = ""


# A link of the findings whose rules speak of one link only.
_RULE_LINKS: Final = {
    "ENV": Link.ENVIRONMENT,
    "FIL": Link.FILE,
    "PKL": Link.FILE,
    "SRC": Link.CODE,
    "DAT": Link.BATCH,
    "MEM": Link.STATE,
}
# Words of a coverage entry that say which link it tested.
_COVERAGE_WORDS: Final = (
    ("gradient at rest", Link.GRAD),
    ("tensor at rest", Link.STATE),
    ("tensors at rest", Link.STATE),
    ("optimizer state", Link.STATE),
    ("file", Link.FILE),
    ("manifest", Link.FILE),
)


def link_of(finding: Finding) -> Link | None:
    """Return the link that a finding broke, None where it is about none (the run's own record)."""
    return finding.where.link or _RULE_LINKS.get(finding.rule[:3])


def stand(
    findings: Iterable[Finding], coverage: Coverage, logs: Sequence[LogSummary]
) -> list[LinkState]:
    """Judge every link, in causal order.

    Args:
        findings: Of the whole run.
        coverage: What the guard's account says was tested.
        logs: What is on record.
    """
    broken: dict[Link, list[Finding]] = {}
    for finding in findings:
        link = link_of(finding)
        if link is not None and finding.severity is not Severity.NOTE:
            broken.setdefault(link, []).append(finding)
    tested = tested_links(coverage)
    recorded = {link for log in logs for link in log.links}
    if any(log.header.get("environment") for log in logs):
        recorded.add(Link.ENVIRONMENT)
    if any(log.header.get("command") for log in logs):
        recorded.add(Link.CODE)
    return [_state(link, broken.get(link, []), tested, recorded) for link in Link]


def tested_links(coverage: Coverage) -> set[Link]:
    """Return the links that the coverage says were tested."""
    found: set[Link] = set()
    for item in coverage.checked:
        if item.count <= 0:
            continue
        what = item.what.lower()
        found.update(link for words, link in _COVERAGE_WORDS if words in what)
    return found


def explain_break(findings: Iterable[Finding]) -> Said | None:
    """Return where the chain broke first, and what that means for what came after."""
    broken = [
        (finding, link)
        for finding in findings
        if finding.severity is Severity.ERROR and (link := link_of(finding)) is not None
    ]
    if not broken:
        return None
    last = float("inf")
    first, link = min(
        broken, key=lambda pair: last if pair[0].where.step is None else pair[0].where.step
    )
    step = first.where.step
    name = say(f"link.{link}")
    at = say("break.at", link=name) if step is None else say("break.at.step", link=name, step=step)
    left = [finding.where.step for finding, _ in broken if not healed_in_time(finding)]
    if not left:
        then = say("break.healed")
    elif None in left:
        then = say("break.after")
    else:
        then = say("break.after.step", step=min(each for each in left if each is not None))
    return Said(f"{at.en} {then.en}", f"{at.zh}{then.zh}")


def healed_in_time(finding: Finding) -> bool:
    """Return whether the right bits were back before the damaged ones were used."""
    return finding.evidence.get("healed") is True and not finding.evidence.get("tainted")


def _count(findings: Sequence[Finding]) -> Said:
    healed = all(finding.evidence.get("healed") is True for finding in findings)
    return say("unit.healed" if healed else "unit.findings", n=len(findings))


def _state(
    link: Link, findings: Sequence[Finding], tested: set[Link], recorded: set[Link]
) -> LinkState:
    if findings:
        gravest = max(findings, key=lambda finding: finding.severity.rank)
        grave = gravest.severity is Severity.ERROR
        return LinkState(
            link=link,
            standing=Standing.BROKEN if grave else Standing.DOUBTFUL,
            words=_count(findings),
            finding=gravest.id,
        )
    if link in tested:
        return LinkState(link=link, standing=Standing.TESTED)
    if link in recorded:
        return LinkState(link=link, standing=Standing.RECORDED)
    return LinkState(link=link, standing=Standing.UNWATCHED)

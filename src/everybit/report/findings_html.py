"""Findings as cards: place, message, evidence with its bits drawn, remedy, rule explained."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from everybit.core.errors import UsageError
from everybit.core.rule import rule
from everybit.report.bits_svg import draw_bits
from everybit.report.evidence import changes_in, describe_change, describe_rest, facts_in
from everybit.report.markup import Markup, join, tag, text
from everybit.report.place import describe_place
from everybit.report.safe_text import printable_message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.core.finding import Finding

#: Findings beyond these are a table, and beyond the table a count.
MAX_CARDS: Final = 60
MAX_ROWS: Final = 500
#: Findings that have a place on the page to go to.
NUM_SHOWN: Final = MAX_CARDS + MAX_ROWS
MAX_CHANGES: Final = 8

_CODE = re.compile(r"`([^`]+)`")


def draw_findings(findings: Sequence[Finding]) -> Markup:
    """Return all findings, the first ones in full."""
    if not findings:
        return tag("p", "No findings.", class_="quiet")
    told: set[str] = set()
    cards = [_card(finding, told) for finding in findings[:MAX_CARDS]]
    rest = findings[MAX_CARDS:]
    return join([*cards, _table(rest[:MAX_ROWS], told), _count(rest[MAX_ROWS:])])


def prose(message: object) -> Markup:
    """Return a message with its backquoted names set as code.

    >>> prose("`w` changed")
    '<code>w</code> changed'
    """
    return Markup(_CODE.sub(r"<code>\1</code>", text(printable_message(message))))


def _once(key: str, told: set[str]) -> bool:
    """Return whether `key` is new; ids of a page are unique, and a rule is explained once."""
    if key in told:
        return False
    told.add(key)
    return True


def _anchor(finding: Finding, told: set[str]) -> str | None:
    key = f"f-{finding.id}"
    return key if _once(key, told) else None


def _card(finding: Finding, told: set[str]) -> Markup:
    severity = str(finding.severity)
    return tag(
        "article",
        tag(
            "header",
            tag("span", severity, class_=f"badge {severity}"),
            tag("h3", finding.rule, " ", tag("span", finding.slug)),
            tag("span", f"certainty: {finding.certainty}", class_="quiet"),
        ),
        tag("p", prose(finding.message), class_="message"),
        tag("p", describe_place(finding.where), class_="place"),
        _evidence(finding),
        tag("p", tag("b", "What to do "), prose(finding.remedy), class_="remedy"),
        _explanation(finding.rule) if _once(finding.rule, told) else None,
        class_=f"finding {severity}",
        id=_anchor(finding, told),
    )


def _evidence(finding: Finding) -> Markup:
    changes = changes_in(finding.evidence)
    shown = changes[:MAX_CHANGES]
    dtype = finding.evidence.get("dtype")
    lines = [
        tag("li", tag("span", describe_change(change, "→")), _bits(change, dtype))
        for change in shown
    ]
    rest = describe_rest(finding.evidence, len(shown)) if changes else ""
    facts = facts_in(finding.evidence, 600)
    return join(
        [
            tag("ul", lines, class_="changes") if lines else None,
            tag("p", rest, class_="quiet") if rest else None,
            tag("dl", [tag("div", tag("dt", k), tag("dd", v)) for k, v in facts], class_="facts")
            if facts
            else None,
        ]
    )


def _bits(change: Mapping[str, Any], dtype: object) -> Markup | None:
    picture = draw_bits(change, dtype)
    return None if picture is None else tag("div", picture, class_="scroll")


def _explanation(rule_id: str) -> Markup | None:
    try:
        known = rule(rule_id)
    except UsageError:
        return None
    body = inspect.cleandoc(known.doc).partition("\n")[2]
    parts: list[Markup] = []
    for block in re.split(r"\n(?=\w[^\n]*:\n)", body.strip()):
        heading, _, words = block.partition(":\n")
        parts.append(tag("h4", heading))
        parts += [tag("p", prose(paragraph)) for paragraph in words.split("\n\n")]
    return tag("details", tag("summary", f"About {known.id}: {known.title}"), parts)


def _table(findings: Sequence[Finding], told: set[str]) -> Markup | None:
    if not findings:
        return None
    rows = [
        tag(
            "tr",
            tag("td", tag("span", finding.severity, class_=f"badge {finding.severity}")),
            tag("td", f"{finding.rule} {finding.slug}"),
            tag("td", describe_place(finding.where)),
            tag("td", prose(finding.message)),
            id=_anchor(finding, told),
        )
        for finding in findings
    ]
    head = tag("tr", [tag("th", name) for name in ("severity", "rule", "place", "message")])
    summary = tag("summary", f"{len(findings):,} more findings")
    table = tag("table", tag("thead", head), tag("tbody", rows))
    return tag("details", summary, tag("div", table, class_="scroll"))


def _count(findings: Sequence[Finding]) -> Markup | None:
    if not findings:
        return None
    counts = Counter(f"{finding.severity} {finding.rule}" for finding in findings).most_common()
    told = ", ".join(f"{count:,} {name}" for name, count in counts)
    words = f"And {told}; `everybit report RUN --json` lists all."
    return tag("p", prose(words), class_="quiet")

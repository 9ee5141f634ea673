"""Findings as cards: what, where, the evidence with its bits drawn, what to do, how to go on."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from everybit.core.errors import UsageError
from everybit.core.rule import rule
from everybit.report.bits_html import draw_bits, draw_map
from everybit.report.chain import healed_in_time
from everybit.report.evidence import changes_in, describe_rest, facts_in
from everybit.report.headline import tell_title
from everybit.report.markup import Markup, join, tag
from everybit.report.next_steps import suggest_scene, suggest_step
from everybit.report.place_html import draw_place, draw_place_line
from everybit.report.safe_text import number, printable
from everybit.report.words import listed, pair, prose, recorded, say, tell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.core.finding import Finding
    from everybit.report.next_steps import NextStep
    from everybit.report.run_summary import LogSummary

#: Findings beyond these are a table, and beyond the table a count.
MAX_CARDS: Final = 100
MAX_ROWS: Final = 500
#: Findings that have a place on the page to go to.
NUM_SHOWN: Final = MAX_CARDS + MAX_ROWS
MAX_CHANGES: Final = 6


def draw_findings(findings: Sequence[Finding], run: str, logs: Sequence[LogSummary]) -> Markup:
    """Return all findings, the first ones in full.

    Args:
        findings: Of the whole run, gravest first.
        run: The run folder as the reader names it.
        logs: Its logs.
    """
    if not findings:
        return tag("p", tell("findings.none"), class_="quiet")
    told: set[str] = set()
    cards = [
        _card(finding, told, [suggest_step(finding, run, logs), suggest_scene(finding, run)])
        for finding in findings[:MAX_CARDS]
    ]
    rest = findings[MAX_CARDS:]
    return join([_map(findings), *cards, _table(rest[:MAX_ROWS], told), _count(rest[MAX_ROWS:])])


def draw_command(command: str) -> Markup:
    """Return a command to paste; the script puts a button beside it."""
    return tag("pre", tag("code", command), tabindex=0, class_="command")


def badge(severity: object) -> Markup:
    """Return a severity as a label."""
    return tag("span", tell(f"severity.{severity}"), class_=f"badge {severity}")


def _once(key: str, told: set[str]) -> bool:
    """Return whether `key` is new; ids of a page are unique, and a rule is explained once."""
    if key in told:
        return False
    told.add(key)
    return True


def _anchor(finding: Finding, told: set[str]) -> str | None:
    key = f"f-{finding.id}"
    return key if _once(key, told) else None


def _map(findings: Sequence[Finding]) -> Markup | None:
    # With one damaged element its card says it all.
    pictures = draw_map(findings)
    if not pictures or sum(len(changes_in(finding.evidence)) for finding in findings) < 2:
        return None
    return tag("div", tag("h3", tell("findings.map")), pictures, class_="map panel")


def _card(finding: Finding, told: set[str], steps: Sequence[NextStep | None]) -> Markup:
    severity = str(finding.severity)
    return tag(
        "article",
        tag(
            "header",
            badge(severity),
            tag("h3", pair(tell_title(finding))),
            _outcome(finding),
            tag(
                "p",
                tag("code", f"{finding.rule} {finding.slug}"),
                tag("span", tell(f"certainty.{finding.certainty}")),
                class_="rule",
            ),
        ),
        draw_place(finding.where),
        tag("p", prose(finding.message), class_="message", lang="en"),
        _evidence(finding),
        tag(
            "div",
            tag(
                "div",
                tag("h4", tell("findings.remedy")),
                tag("p", prose(finding.remedy), lang="en"),
            ),
            tag(
                "div",
                tag("h4", tell("findings.go")),
                [
                    [draw_command(step.command), tag("p", pair(step.purpose), class_="quiet")]
                    for step in steps
                    if step is not None
                ],
            ),
            class_="pairs",
        ),
        _explanation(finding.rule) if _once(finding.rule, told) else None,
        class_=f"finding panel {severity}",
        id=_anchor(finding, told),
    )


def _outcome(finding: Finding) -> Markup | None:
    if healed_in_time(finding):
        return tag("span", tell("outcome.healed"), class_="badge good")
    if finding.evidence.get("tainted") is True:
        return tag("span", tell("outcome.tainted"), class_="badge warning")
    return None


def _evidence(finding: Finding) -> Markup:
    changes = changes_in(finding.evidence)
    shown = changes[:MAX_CHANGES]
    dtype = finding.evidence.get("dtype")
    lines = [tag("li", _change(change), draw_bits(change, dtype)) for change in shown]
    num_rest = _num_rest(finding, len(shown)) if changes else 0
    facts = facts_in(finding.evidence, 600)
    return join(
        [
            tag("ul", lines, class_="changes", role="list") if lines else None,
            tag("p", tell("change.rest", n=num_rest), class_="quiet") if num_rest else None,
            tag(
                "dl",
                [tag("div", tag("dt", k), tag("dd", v)) for k, v in facts],
                class_="facts",
                lang="en",
            )
            if facts
            else None,
        ]
    )


def _num_rest(finding: Finding, shown: int) -> int:
    if not describe_rest(finding.evidence, shown):
        return 0
    total, count = finding.evidence.get("num_elements"), len(changes_in(finding.evidence))
    return max(total if isinstance(total, int) else 0, count) - shown


def _change(change: Mapping[str, Any]) -> Markup:
    parts = [
        tag("span", tell("change", element=printable(change["element"], 24)), class_="element")
    ]
    if "before" in change or "after" in change:
        before, after = number(change.get("before", "?")), number(change.get("after", "?"))
        parts.append(
            tag(
                "span",
                tag("span", before, class_="before"),
                tag("span", " → ", class_="arrow"),
                tag("span", after, class_="after"),
                class_="value",
            )
        )
    return tag("p", parts)


def _explanation(rule_id: str) -> Markup | None:
    try:
        known = rule(rule_id)
    except UsageError:
        return None
    parts: list[Markup] = []
    for heading, words in known.sections.items():
        parts.append(tag("h4", pair(recorded(heading))))
        parts += [tag("p", prose(paragraph), lang="en") for paragraph in words.split("\n\n")]
    title = tag("summary", tell("findings.about", rule=known.id))
    return tag(
        "details", title, tag("div", tag("p", prose(known.title), lang="en"), parts), class_="about"
    )


def _table(findings: Sequence[Finding], told: set[str]) -> Markup | None:
    if not findings:
        return None
    rows = [
        tag(
            "tr",
            tag("td", badge(finding.severity)),
            tag("td", tag("code", finding.rule)),
            tag("td", draw_place_line(finding.where)),
            tag("td", prose(finding.message), lang="en"),
            id=_anchor(finding, told),
        )
        for finding in findings
    ]
    columns = ("severity", "rule", "place", "message")
    head = tag("tr", [tag("th", tell(f"column.{name}"), scope="col") for name in columns])
    summary = tag("summary", tell("findings.more", n=len(findings)), id="findings-more")
    table = tag("table", tag("thead", head), tag("tbody", rows))
    region = tag(
        "div", table, class_="scroll", tabindex=0, role="group", aria_labelledby="findings-more"
    )
    return tag("details", summary, region, class_="more panel")


def _count(findings: Sequence[Finding]) -> Markup | None:
    if not findings:
        return None
    counts = Counter((finding.severity, finding.rule) for finding in findings).most_common()
    parts = [
        say("reason", what=say(f"count.{severity}", n=count), why=printable(rule_id))
        for (severity, rule_id), count in counts
    ]
    return tag("p", tell("findings.rest", counts=listed(parts)), class_="quiet")

"""The top of the page: the bar with its switches, and the verdict with what it is about."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from everybit.core.verdict import Status
from everybit.report.chain import healed_in_time
from everybit.report.findings_html import draw_command
from everybit.report.headline import tell_missed, tell_verdict
from everybit.report.markup import Markup, tag
from everybit.report.next_steps import command_line
from everybit.report.run_summary import State
from everybit.report.stats import format_seconds, format_share
from everybit.report.words import Said, listed, pair, say, tell

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from everybit.core.verdict import Verdict
    from everybit.report.run_summary import LogSummary

_STATUS_CSS: Final = {
    Status.CLEAN: "good",
    Status.INCONCLUSIVE: "warning",
    Status.FINDINGS: "error",
}
# 24 x 24: a check mark, a question mark, an exclamation mark.
_SIGNS: Final = {
    Status.CLEAN: "M5 12.5l4.5 4.5L19 7.5",
    Status.INCONCLUSIVE: "M8.5 9a3.5 3.5 0 1 1 5.2 3.1c-1.2.7-1.7 1.3-1.7 2.6M12 18.4v.2",
    Status.FINDINGS: "M12 5.5v8M12 18v.2",
}
# The mark: eight bits, one of them flipped.
_BITS: Final = ((0, 0), (1, 0), (2, 0), (0, 1), (2, 1), (0, 2), (1, 2), (2, 2))


def draw_bar(sections: Iterable[str], counts: Mapping[str, int], run: str) -> Markup:
    """Return the bar: whose page it is, where to go, and the switches.

    Args:
        sections: Keys of the sections, in order.
        counts: Numbers beside their names.
        run: The run folder as the reader names it.
    """
    links = [
        tag(
            "li",
            tag(
                "a",
                tell(f"section.{key}"),
                tag("span", f"{counts[key]:,}", class_="count") if counts.get(key) else None,
                href=f"#{key}",
            ),
        )
        for key in sections
    ]
    return tag(
        "header",
        tag(
            "div",
            tag("p", _mark(), tag("b", "everybit"), tag("span", run, class_="run"), class_="brand"),
            tag("div", _language(), _theme(), class_="switches scripted"),
            class_="top",
        ),
        tag(
            "nav",
            tag("span", tell("nav"), class_="hidden", id="nav-name"),
            tag("ul", links, role="list"),
            aria_labelledby="nav-name",
        ),
        class_="bar",
    )


def draw_verdict(verdict: Verdict, logs: Sequence[LogSummary]) -> Markup:
    """Return the answer, and what it is about."""
    css = _tone(verdict)
    going = any(log.state is State.RUNNING for log in logs)
    command, missed = command_line(logs), tell_missed(verdict)
    return tag(
        "section",
        tag(
            "div",
            _sign(verdict.status),
            tag(
                "div",
                tag("p", tell(f"status.{verdict.status}"), class_="status"),
                tag("h1", pair(tell_verdict(verdict)), id="verdict-title"),
                tag("p", pair(missed), class_="missed") if missed else None,
            ),
            class_="answer",
        ),
        tag("p", tell("banner.running"), class_="banner") if going else None,
        _facts(logs),
        tag(
            "div",
            tag("h2", tell("fact.command"), class_="small"),
            draw_command(command),
            class_="origin",
        )
        if command
        else None,
        class_=f"verdict {css}",
        id="verdict",
        aria_labelledby="verdict-title",
    )


def _tone(verdict: Verdict) -> str:
    """Return the colour of the answer: what was healed in time alarms less than what was not."""
    left = [finding for finding in verdict.findings if not healed_in_time(finding)]
    if left:
        return str(left[0].severity)
    return "warning" if verdict.findings else _STATUS_CSS[verdict.status]


def _mark() -> Markup:
    squares = [tag("rect", x=1 + 8 * x, y=1 + 8 * y, width=6, height=6, rx=1.5) for x, y in _BITS]
    flipped = tag("rect", x=8, y=8, width=8, height=8, rx=2, class_="flip")
    return tag("svg", squares, flipped, viewBox="0 0 24 24", class_="mark", aria_hidden="true")


def _sign(status: Status) -> Markup:
    path = tag("path", d=_SIGNS[status])
    return tag("svg", path, viewBox="0 0 24 24", class_="seal", aria_hidden="true")


def _language() -> Markup:
    return tag(
        "div",
        tag("span", tell("language"), class_="hidden", id="language-name"),
        tag("button", "English", type="button", lang="en", data_language="en", aria_pressed="true"),
        tag(
            "button",
            "中文",
            type="button",
            lang="zh-Hans",
            data_language="zh",
            aria_pressed="false",
        ),
        role="group",
        aria_labelledby="language-name",
        class_="switch",
    )


def _theme() -> Markup:
    return tag(
        "div",
        tag("span", tell("theme"), class_="hidden", id="theme-name"),
        [
            tag(
                "button",
                tell(f"theme.{name}"),
                type="button",
                data_theme_to=name,
                aria_pressed="true" if name == "auto" else "false",
            )
            for name in ("auto", "light", "dark")
        ],
        role="group",
        aria_labelledby="theme-name",
        class_="switch",
    )


def _facts(logs: Sequence[LogSummary]) -> Markup:
    seconds = sum(log.seconds for log in logs)
    guard = sum(log.guard_seconds for log in logs)
    skipped, tainted = sum(log.skipped for log in logs), sum(log.tainted for log in logs)
    newest = {log.rank: log for log in logs}
    states = Counter(log.state.name for log in newest.values())
    facts = [
        ("steps", _spans(logs) or say("none.steps")),
        ("state mixed" if len(states) > 1 else "state", _states(states)),
        ("ranks", _plain(f"{len(newest):,}")),
        ("time", _plain(format_seconds(_longest(logs))) if seconds else say("none.time")),
        ("guard", _plain(format_share(guard / seconds)) if seconds else say("none.time")),
    ]
    if len(logs) > len(newest):
        facts.insert(3, ("attempts", _plain(f"{len({log.attempt for log in logs}):,}")))
    if skipped:
        facts.append(("skipped", _plain(f"{skipped:,}")))
    if tainted:
        facts.append(("tainted", _plain(f"{tainted:,}")))
    cells = [
        tag(
            "div",
            tag("dt", tell(f"fact.{name.split()[0]}")),
            tag("dd", pair(value)),
            class_=f"fact {name}",
        )
        for name, value in facts
    ]
    return tag("dl", cells, class_="facts-row")


def _states(states: Counter[str]) -> Said:
    if len(states) < 2:
        return say(f"state.{next(iter(states))}") if states else say("state.none")
    return listed([say("state.of", n=n, state=say(f"state.{name}")) for name, n in states.items()])


def _longest(logs: Sequence[LogSummary]) -> float:
    """Return the step time of the rank that has most: ranks work side by side."""
    by_rank: dict[int, float] = {}
    for log in logs:
        by_rank[log.rank] = by_rank.get(log.rank, 0.0) + log.seconds
    return max(by_rank.values(), default=0.0)


def _plain(value: str) -> Said:
    return Said(value, value)


def _spans(logs: Sequence[LogSummary]) -> Said | None:
    """Return the steps of each attempt: attempts number theirs anew, or go on."""
    spans: dict[int, tuple[int, int]] = {}
    for log in logs:
        if log.first_step is not None and log.last_step is not None:
            low, high = spans.get(log.attempt, (log.first_step, log.last_step))
            spans[log.attempt] = (min(low, log.first_step), max(high, log.last_step))
    told: Said | None = None
    for _, (low, high) in sorted(spans.items()):
        span = say("range", first=low, last=high)
        told = span if told is None else say("range.then", before=told, after=span)
    return told

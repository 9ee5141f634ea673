"""The table of ranks and attempts: how each ended, how far it came, what was found on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from everybit.report.markup import Markup, join, tag
from everybit.report.run_summary import State
from everybit.report.safe_text import printable
from everybit.report.sections_html import clock_text, draw_region
from everybit.report.stats import format_seconds, format_share
from everybit.report.words import tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.finding import Finding
    from everybit.report.run_summary import LogSummary

MAX_LOGS: Final = 256
_COLUMNS: Final = (
    "rank",
    "attempt",
    "state",
    "count",
    "from_to",
    "findings",
    "started",
    "time",
    "guard",
)
_FIGURES: Final = frozenset({"count", "from_to", "findings", "time", "guard"})
_TONES: Final = {State.CLEAN: "good", State.RUNNING: "note", State.UNSEEN: "warning"}


def draw_ranks(
    logs: Sequence[LogSummary], findings: Sequence[Finding], world_size: int | None = None
) -> Markup:
    """Return the table.

    Args:
        logs: Ranks in order, the attempts of each in order.
        findings: Of the whole run; those of a log are counted and told in its row.
        world_size: Number of ranks the run was started with, None where unknown.
    """
    if not logs:
        return tag("p", tell("ranks.none"), class_="quiet")
    own: dict[tuple[int | None, int], list[Finding]] = {}
    for finding in findings:
        attempt = finding.evidence.get("attempt", 0)
        key = (finding.where.rank, attempt if isinstance(attempt, int) else 0)
        own.setdefault(key, []).append(finding)
    furthest = max((log.last_step for log in logs if log.last_step is not None), default=None)
    rows = [_row(log, own.get((log.rank, log.attempt), []), furthest) for log in logs[:MAX_LOGS]]
    head = tag(
        "tr",
        [
            tag(
                "th",
                tell(f"column.{name}"),
                scope="col",
                class_="figure" if name in _FIGURES else None,
            )
            for name in _COLUMNS
        ],
    )
    table = tag("table", tag("thead", head), tag("tbody", rows), class_="ranks")
    more = []
    if len(logs) > MAX_LOGS:
        more.append(tag("p", tell("ranks.more", n=len(logs) - MAX_LOGS), class_="quiet"))
    missing = (world_size or 0) - len({log.rank for log in logs})
    if missing > 0:
        more.append(tag("p", tell("ranks.missing", n=missing), class_="badge error"))
    return join([draw_region(table, "section-ranks"), *more])


def _row(log: LogSummary, findings: Sequence[Finding], furthest: int | None) -> Markup:
    bad = "figure bad" if findings else "figure"
    share = format_share(log.guard_seconds / log.seconds) if log.seconds else ""
    return tag(
        "tr",
        tag("th", log.rank, scope="row"),
        tag("td", log.attempt),
        tag("td", _state(log, findings, furthest)),
        tag("td", f"{log.num_steps:,}", class_="figure"),
        tag("td", _span(log), class_="figure"),
        tag("td", f"{len(findings):,}", class_=bad),
        tag("td", clock_text(log.started_s)),
        tag("td", format_seconds(log.seconds) if log.seconds else "", class_="figure"),
        tag("td", share, class_="figure"),
    )


def _state(log: LogSummary, findings: Sequence[Finding], furthest: int | None) -> Markup:
    badges = [_badge(_TONES.get(log.state, "error"), f"state.{log.state.name}")]
    if log.paused:
        badges.append(_badge("warning", "state.paused"))
    still = sum(_still_s(finding) for finding in findings)
    if still:
        badges.append(_badge("warning", "state.still", time=format_seconds(still)))
    if log.newest and log.last_step is not None and furthest is not None:
        behind = furthest - log.last_step
        # One step apart is how ranks are.
        if behind > 1:
            badges.append(_badge("warning", "state.late", n=behind))
    for wrong, key in ((log.torn, "state.torn"), (log.damaged, "state.damaged")):
        if wrong:
            badges.append(_badge("error", key))
    detail = tag("span", printable(log.detail, 300), class_="quiet") if log.detail else None
    return join([*badges, detail], " ")


def _still_s(finding: Finding) -> float:
    """Return the seconds that a process stood still, of a finding that says so."""
    seconds: Any = finding.evidence.get("seconds")
    told = finding.rule == "RUN153" and isinstance(seconds, int | float)
    return float(seconds) if told and 0 < seconds < 1e9 else 0.0


def _badge(tone: str, key: str, **values: object) -> Markup:
    return tag("span", tell(key, **values), class_=f"badge {tone}")


def _span(log: LogSummary) -> str:
    if log.first_step is None or log.last_step is None:
        return ""
    return f"{log.first_step:,} - {log.last_step:,}"

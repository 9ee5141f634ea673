"""A run as one self-contained page: no request leaves it, and it reads without scripts."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING

from everybit.core.verdict import Status
from everybit.report.account import tell_ranges
from everybit.report.chain import explain_break, stand
from everybit.report.chain_svg import draw_chain
from everybit.report.findings_html import NUM_SHOWN, draw_findings, prose
from everybit.report.loss_svg import draw_loss
from everybit.report.markup import Markup, join, tag
from everybit.report.next_steps import command_line, suggest_steps
from everybit.report.run_summary import State
from everybit.report.safe_text import plural
from everybit.report.sections_html import (
    clock_text,
    draw_cost,
    draw_coverage,
    draw_environment,
    draw_logs,
)
from everybit.report.sentence import verdict_sentence
from everybit.report.stats import format_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.verdict import Verdict
    from everybit.report.run_summary import LogSummary


def render_page(
    verdict: Verdict, logs: Sequence[LogSummary], *, run: str, made_at_s: float, version: str
) -> str:
    """Return the whole page as HTML.

    Args:
        verdict: The run's verdict.
        logs: A summary of each rank's attempts.
        run: The run folder as the reader names it.
        made_at_s: Now, seconds since the epoch.
        version: Version of everybit.
    """
    style, script = _file("style.css"), _file("page.js")
    body = [
        _header(verdict, logs, run),
        tag(
            "main",
            _section("chain", "The chain", _chain(verdict, logs)),
            _section("loss", "Loss", _loss(verdict, logs)),
            _section("findings", "Findings", draw_findings(verdict.findings)),
            _section("coverage", "What this stands on", draw_coverage(verdict.coverage)),
            _section("logs", "Ranks and attempts", draw_logs(logs)),
            _section("cost", "What watching cost", draw_cost(logs)),
            _section("next", "How to go on", _next(verdict, logs, run)),
            _section("environment", "Environment", _environment(logs)),
        ),
        tag("footer", f"Made by everybit {version} at {clock_text(made_at_s)}."),
        tag("script", script),
    ]
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"{verdict.status}: {run} - everybit"),
        tag("style", style),
    ]
    page = tag("html", tag("head", head), tag("body", body), lang="en")
    return f"<!doctype html>\n{page}\n"


def _file(name: str) -> Markup:
    return Markup(files("everybit.report").joinpath(name).read_text(encoding="utf-8"))


def _policy(style: str, script: str) -> str:
    """Allow this page's own style and script and nothing else, no request of any kind."""

    def hashed(content: str) -> str:
        digest = hashlib.sha256(content.encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"

    return (
        f"default-src 'none'; style-src {hashed(style)}; script-src {hashed(script)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _section(key: str, title: str, content: object) -> Markup:
    heading = tag("h2", title, id=f"{key}-title")
    return tag("section", heading, content, id=key, aria_labelledby=f"{key}-title")


def _header(verdict: Verdict, logs: Sequence[LogSummary], run: str) -> Markup:
    gravest = verdict.findings[0].severity if verdict.findings else None
    css = str(gravest) if gravest else _STATUS_CSS[verdict.status]
    going = any(log.state is State.RUNNING for log in logs)
    sentence = verdict_sentence(verdict)
    return tag(
        "header",
        tag("p", tag("b", "everybit"), " report of ", tag("code", run), class_="kicker"),
        tag(
            "h1",
            tag("span", verdict.status, class_=f"status {css}"),
            tag("span", sentence[:1].upper(), sentence[1:], "."),
        ),
        tag("p", "The run is still going: this is what is on record so far.", class_="banner")
        if going
        else None,
        _facts(logs),
        _command(logs),
        class_=f"top {css}",
    )


_STATUS_CSS = {Status.CLEAN: "good", Status.INCONCLUSIVE: "warning", Status.FINDINGS: "error"}


def _facts(logs: Sequence[LogSummary]) -> Markup:
    steps = tell_ranges(
        (log.attempt, log.first_step, log.last_step)
        for log in logs
        if log.first_step is not None and log.last_step is not None
    )
    seconds = sum(log.seconds for log in logs)
    guard = sum(log.guard_seconds for log in logs)
    skipped, tainted = sum(log.skipped for log in logs), sum(log.tainted for log in logs)
    newest = {log.rank: log for log in logs}
    states = list(dict.fromkeys(str(log.state) for log in newest.values()))
    facts = [
        ("steps", steps or "none on record"),
        ("state", ", ".join(states) or "no log"),
        ("ranks", f"{len(newest):,}" if newest else "none"),
        ("step time", format_seconds(seconds) if seconds else "not on record"),
        ("guard", f"{100 * guard / seconds:.2f} % of it" if seconds else "not on record"),
    ]
    if len(logs) > len(newest):
        facts.insert(3, ("attempts", f"{len({log.attempt for log in logs}):,}"))
    if skipped:
        facts.append(("skipped updates", f"{skipped:,}"))
    if tainted:
        facts.append(("tainted steps", f"{tainted:,}"))
    cells = [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts]
    return tag("dl", cells, class_="summary")


def _command(logs: Sequence[LogSummary]) -> Markup | None:
    command = command_line(logs)
    return tag("pre", tag("code", command), class_="command", tabindex=0) if command else None


def _chain(verdict: Verdict, logs: Sequence[LogSummary]) -> Markup:
    states = stand(verdict.findings, verdict.coverage, logs)
    shown = {finding.id for finding in verdict.findings[:NUM_SHOWN]}
    keys = (
        ("broken", "a finding of severity error"),
        ("doubtful", "a warning"),
        ("tested", "tested while it ran"),
        ("recorded", "on record, to compare with another run"),
        ("unwatched", "not watched"),
    )
    present = {str(state.standing) for state in states}
    legend = [
        tag("li", tag("i", class_=f"key {css}"), " ", words)
        for css, words in keys
        if css in present
    ]
    told = explain_break(verdict.findings)
    return join(
        [
            tag("p", prose(told)) if told else None,
            draw_chain(states, shown),
            tag("ul", legend, class_="legend"),
        ]
    )


def _loss(verdict: Verdict, logs: Sequence[LogSummary]) -> Markup:
    picture = draw_loss(logs, verdict.findings)
    if picture is None:
        return tag("p", "No loss is on record.", class_="quiet")
    broken = sum(bucket.broken for log in logs for bucket in log.losses.buckets())
    note = tag("p", f"{plural(broken, 'value')} not finite, shaded.") if broken else None
    widest = max(log.losses.width for log in logs)
    folded = (
        tag("p", "A point stands for several steps: their mean, lowest and highest value.")
        if widest > 1
        else None
    )
    return join([picture, tag("div", note, folded, class_="quiet")])


def _next(verdict: Verdict, logs: Sequence[LogSummary], run: str) -> Markup:
    items = [
        tag("li", tag("pre", tag("code", step.command), tabindex=0), tag("p", prose(step.purpose)))
        for step in suggest_steps(run, verdict, logs)
    ]
    return tag("ol", items, class_="steps")


def _environment(logs: Sequence[LogSummary]) -> Markup:
    if not logs:
        return tag("p", "No environment is on record.", class_="quiet")
    newest = max(logs, key=lambda log: (-log.rank, log.attempt))
    note = None
    if len(logs) > 1:
        note = tag("p", f"Of rank {newest.rank}, attempt {newest.attempt}.", class_="quiet")
    return join([note, draw_environment(newest.header)])

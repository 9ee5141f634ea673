"""A run as one self-contained page: no request leaves it, and it reads without scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.report.chain_html import draw_chain
from everybit.report.findings_html import NUM_SHOWN, draw_findings
from everybit.report.markup import Markup, join, tag
from everybit.report.masthead import draw_bar, draw_verdict
from everybit.report.next_steps import suggest_steps
from everybit.report.ranks_html import draw_ranks
from everybit.report.safe_text import printable
from everybit.report.sections import draw_section, script_words
from everybit.report.sections_html import (
    clock_text,
    draw_coverage,
    draw_environment,
    draw_next,
)
from everybit.report.self_contained import draw_head, read_file
from everybit.report.timelines_html import draw_timelines
from everybit.report.words import Said, say, tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.verdict import Verdict
    from everybit.report.run_summary import LogSummary
    from everybit.report.timelines import Timelines


def render_page(
    verdict: Verdict,
    logs: Sequence[LogSummary],
    timelines: Timelines,
    *,
    run: str,
    made_at_s: float,
    version: str,
    world_size: int | None = None,
) -> str:
    """Return the whole page as HTML.

    Args:
        verdict: The run's verdict.
        logs: A summary of each rank's attempts.
        timelines: The values of their steps.
        run: The run folder as the reader names it.
        made_at_s: Now, seconds since the epoch.
        version: Version of everybit.
        world_size: Number of ranks the run was started with, None where unknown.
    """
    style = read_file("vendor/uPlot.min.css") + read_file("style.css")
    scripts = [read_file("vendor/uPlot.iife.min.js"), read_file("page.js"), read_file("charts.js")]
    shown = {finding.id for finding in verdict.findings[:NUM_SHOWN]}
    steps = suggest_steps(run, verdict, logs)
    sections: list[tuple[str, str | None, Markup]] = [
        ("chain", "lead.chain", draw_chain(verdict, logs, shown)),
        ("timelines", "lead.timelines", draw_timelines(timelines, verdict.findings, shown)),
        ("findings", None, draw_findings(verdict.findings, run, logs)),
        ("ranks", "lead.ranks", draw_ranks(logs, verdict.findings, world_size)),
        ("coverage", "lead.coverage", draw_coverage(verdict.coverage)),
        ("next", None, draw_next(steps)),
        ("environment", "lead.environment", _environment(logs)),
    ]
    counts = {"findings": len(verdict.findings)}
    body = [
        tag("a", tell("skip"), href="#main", class_="skip"),
        draw_bar([key for key, _, _ in sections], counts, run),
        tag(
            "main",
            draw_verdict(verdict, logs),
            [
                draw_section(key, tell(lead) if lead else None, content)
                for key, lead, content in sections
            ],
            id="main",
            tabindex=-1,
        ),
        tag(
            "footer",
            tag("p", tell("footer", version=version, when=clock_text(made_at_s))),
            tag("p", tell("footer.private")),
        ),
        tag("script", script_words(_title(verdict, run)), type="application/json", id="words"),
        [tag("script", script) for script in scripts],
    ]
    head = draw_head(_title(verdict, run).en, style, scripts)
    page = tag("html", head, tag("body", body), lang="en")
    return f"<!doctype html>\n{page}\n"


def _title(verdict: Verdict, run: str) -> Said:
    return say("title", status=say(f"status.{verdict.status}"), run=printable(run))


def _environment(logs: Sequence[LogSummary]) -> Markup:
    if not logs:
        return tag("p", tell("environment.none"), class_="quiet")
    newest = max(logs, key=lambda log: (-log.rank, log.attempt))
    note = None
    if len(logs) > 1:
        told = tell("lead.environment.of", rank=newest.rank, attempt=newest.attempt)
        note = tag("p", told, class_="quiet")
    return join([note, draw_environment(newest.header)])

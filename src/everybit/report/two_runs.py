"""Two runs as one self-contained page: where they part, and how far, over steps and modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everybit.report.findings_html import NUM_SHOWN, draw_findings
from everybit.report.markup import Markup, join, tag
from everybit.report.masthead import draw_bar
from everybit.report.place import describe_place
from everybit.report.safe_text import printable
from everybit.report.sections import draw_section, script_words
from everybit.report.sections_html import clock_text, draw_coverage
from everybit.report.self_contained import draw_head, read_file
from everybit.report.timelines_html import draw_timelines
from everybit.report.two_parts import draw_explained, draw_modules, draw_samples, draw_strips
from everybit.report.words import prose, say, tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.verdict import Verdict
    from everybit.report.timelines import Timelines
    from everybit.report.two_parts import ModuleRow, Strips


def render_two_runs(
    verdict: Verdict,
    timelines: Timelines,
    strips: Strips,
    modules: Sequence[ModuleRow],
    *,
    names: tuple[str, str],
    made_at_s: float,
    version: str,
) -> str:
    """Return the whole page as HTML.

    Args:
        verdict: Of `everybit diff`.
        timelines: The values of both runs' steps, a line each, and the distance of their losses.
        strips: Equal and unequal links over the steps.
        modules: The modules at the step at which they part.
        names: The run folders as the reader names them.
        made_at_s: Now, seconds since the epoch.
        version: Version of everybit.
    """
    a, b = (printable(name) for name in names)
    title = say("two.title", a=a, b=b)
    style = read_file("vendor/uPlot.min.css") + read_file("style.css")
    scripts = [read_file("vendor/uPlot.iife.min.js"), read_file("page.js"), read_file("charts.js")]
    shown = {finding.id for finding in verdict.findings[:NUM_SHOWN]}
    sections: list[tuple[str, Markup | None, Markup]] = [
        ("steps", tell("two.steps.lead"), draw_strips(strips)),
        ("timelines", None, draw_timelines(timelines, verdict.findings, shown)),
        ("modules", tell("two.modules.lead"), draw_modules(modules)),
        ("explained", None, draw_explained(verdict.explained_by)),
        ("parting", None, draw_findings(verdict.findings, names[0], [])),
        ("coverage", None, draw_coverage(verdict.coverage)),
    ]
    evaluation: Any = (verdict.comparison or {}).get("evaluation")
    if evaluation:
        sections.insert(0, ("samples", None, draw_samples(evaluation)))
    body = [
        tag("a", tell("skip"), href="#main", class_="skip"),
        draw_bar([key for key, _, _ in sections], {}, title.en),
        tag(
            "main",
            _answer(verdict),
            [draw_section(key, lead, content) for key, lead, content in sections],
            id="main",
            tabindex=-1,
        ),
        tag(
            "footer",
            tag("p", tell("two.footer", a=a, b=b)),
            tag("p", tell("footer", version=version, when=clock_text(made_at_s))),
            tag("p", tell("footer.private")),
        ),
        tag("script", script_words(title), type="application/json", id="words"),
        [tag("script", script) for script in scripts],
    ]
    page = tag("html", draw_head(title.en, style, scripts), tag("body", body), lang="en")
    return f"<!doctype html>\n{page}\n"


def _answer(verdict: Verdict) -> Markup:
    first = verdict.first
    if first is None:
        told, lines = tell("two.equal"), join([])
    else:
        step = first.where.step
        kind = str(first.kind)
        told = (
            tell("two.parts", kind=kind)
            if step is None
            else tell("two.parts.at", step=step, kind=kind)
        )
        place = describe_place(first.where)
        lines = join(
            [
                tag("p", place, class_="quiet", lang="en") if place else None,
                tag("p", prose(first.why), lang="en"),
            ]
        )
    return tag(
        "section",
        tag("h1", told, id="verdict-title"),
        lines,
        class_=f"verdict {'good' if first is None else 'error'}",
        id="verdict",
        aria_labelledby="verdict-title",
    )

"""The timelines' section: a place for each chart, and each chart's numbers as a table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from everybit.report.markup import Markup, join, tag
from everybit.report.safe_text import number
from everybit.report.timelines_data import as_script_text, encode_timelines, name_line
from everybit.report.words import Said, pair, say, tell

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from everybit.core.finding import Finding
    from everybit.report.series import Series, Stretch
    from everybit.report.timelines import LineKey, Timelines

#: Rows of a chart's table: enough to see the shape by ear.
MAX_ROWS: Final = 24


def draw_timelines(
    timelines: Timelines, findings: Sequence[Finding], shown: Collection[str]
) -> Markup:
    """Return the charts' places, their tables, and the numbers for the script.

    Args:
        timelines: What was gathered.
        findings: All of the run, gravest first.
        shown: Ids of the findings that have a place on the page.
    """
    quantities = timelines.quantities()
    if not quantities:
        return tag("p", tell("chart.none"), class_="quiet")
    notes = []
    if timelines.merged > 1:
        many = "chart.logs" if timelines.resumed else "chart.ranks"
        notes.append(tell(many, n=timelines.merged))
    if timelines.grid.width > 1:
        notes.append(tell("chart.stretch", n=timelines.grid.width))
    data = as_script_text(encode_timelines(timelines, findings, shown))
    return join(
        [
            _toolbar(),
            tag("p", tell("chart.noscript"), class_="quiet unscripted"),
            tag("p", join(notes, " "), class_="quiet") if notes else None,
            tag(
                "div",
                tag(
                    "ul",
                    class_="markers",
                    id="markers",
                    role="list",
                    aria_labelledby="markers-name",
                ),
                tag("span", tell("chart.markers"), id="markers-name", class_="hidden"),
                [_chart(name, timelines) for name in quantities],
                class_="charts",
                id="charts",
            ),
            tag("p", class_="hidden", id="heard", role="status"),
            tag("script", data, type="application/json", id="timelines-data"),
        ]
    )


def _toolbar() -> Markup:
    buttons = [
        tag(
            "button",
            tag("span", "+", aria_hidden="true"),
            _hidden("chart.in"),
            type="button",
            data_zoom="in",
        ),
        tag(
            "button",
            tag("span", "−", aria_hidden="true"),
            _hidden("chart.out"),
            type="button",
            data_zoom="out",
        ),
        tag("button", tell("chart.reset"), type="button", data_zoom="reset"),
    ]
    return tag(
        "div",
        tag(
            "p",
            tag("span", id="range", class_="range"),
            tag("span", tell("chart.keys"), id="chart-keys", class_="keys"),
        ),
        tag("div", buttons, class_="buttons", role="group", aria_labelledby="section-timelines"),
        class_="toolbar scripted",
    )


def _hidden(key: str) -> Markup:
    return tag("span", tell(key), class_="hidden")


def _chart(name: str, timelines: Timelines) -> Markup:
    lines = timelines.series(name)
    broken = sum(sum(series.broken.values()) for _, series in lines)
    title = f"chart-{name}"
    return tag(
        "div",
        tag(
            "div",
            tag("h3", tell(f"chart.{name}"), id=title),
            tag("ul", class_="values", role="list", aria_hidden="true"),
            tag(
                "button",
                tell("chart.log"),
                type="button",
                class_="log",
                aria_pressed="false",
                aria_describedby=title,
            ),
            class_="head",
        ),
        tag(
            "div",
            class_="plot",
            tabindex=0,
            role="img",
            aria_labelledby=title,
            aria_describedby="chart-keys",
        ),
        tag("p", tell("chart.broken", n=broken), class_="quiet") if broken else None,
        _table(name, lines, timelines),
        class_=f"chart {name}",
        data_chart=name,
    )


def _table(name: str, lines: Sequence[tuple[LineKey, Series]], timelines: Timelines) -> Markup:
    columns = [{s.first: s for s in series.stretches(MAX_ROWS)} for _, series in lines]
    ends = {first: s.last for held in columns for first, s in held.items()}
    rows = [
        tag(
            "tr",
            tag("th", f"{first:,}" if last <= first else f"{first:,} - {last:,}", scope="row"),
            [tag("td", _cell(held.get(first)), class_="figure") for held in columns],
        )
        for first, last in sorted(ends.items())
    ]
    head = tag(
        "tr",
        tag("th", tell("column.steps"), scope="col"),
        [
            tag("th", pair(name_line(key, timelines)), scope="col", class_="figure")
            for key, _ in lines
        ],
    )
    caption = say("caption.chart", chart=say(f"chart.{name}"))
    table = tag("table", tag("caption", pair(caption)), tag("thead", head), tag("tbody", rows))
    about = f"table-{name}"
    return tag(
        "details",
        tag("summary", tell("chart.table"), id=about, aria_describedby=f"chart-{name}"),
        tag("div", table, class_="scroll", tabindex=0, role="group", aria_labelledby=about),
        class_="table",
    )


def _cell(stretch: Stretch | None) -> Markup | None:
    if stretch is None:
        return None
    if not stretch.count:
        return tell("chart.not_finite")
    if stretch.low == stretch.high or math.isnan(stretch.low):
        words: Said = Said(number(stretch.mean), number(stretch.mean))
    else:
        span = f"{stretch.mean:.5g} ({stretch.low:.5g} to {stretch.high:.5g})"
        words = Said(span, span.replace(" to ", " 至 "))
    if stretch.broken:
        return join([pair(words), ", ", tell("chart.broken", n=stretch.broken)])
    return pair(words)

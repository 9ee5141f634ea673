"""The loss over the steps with the findings on it, and the guard's share of each step's time."""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING, Final

from everybit.report.chart_svg import Frame, Line, Mark, draw_chart
from everybit.report.findings_html import NUM_SHOWN
from everybit.report.markup import Markup, join, tag
from everybit.report.place import describe_place
from everybit.report.scale import Kind, Scale, fit_scale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.finding import Finding
    from everybit.report.run_summary import LogSummary
    from everybit.report.series import Bucket, Series

#: Points of a line on a wide screen.
MAX_POINTS: Final = 480
#: Class, width, height (SVG units) and points of a line, by screen; CSS shows the one that fits.
SIZES: Final = (("wide", 880.0, 300.0, MAX_POINTS), ("narrow", 380.0, 260.0, 160))
#: Ranks beyond these share one quiet colour.
NUM_COLORS: Final = 6


def draw_loss(logs: Sequence[LogSummary], findings: Sequence[Finding]) -> Markup | None:
    """Return the loss of every rank and attempt, or None where no loss is on record."""
    series = [(log, log.losses) for log in logs if log.losses.num_values]
    if not series:
        return None
    lines = _lines(series, logs, MAX_POINTS)
    finite = [bucket for line in lines for bucket in line.buckets if bucket.count]
    if finite:
        middle = sorted(abs(bucket.mean) for bucket in finite)[len(finite) // 2]
        scale = fit_scale(min(b.low for b in finite), max(b.high for b in finite), middle)
    else:
        scale = Scale(kind=Kind.LINEAR, low=0.0, high=1.0)
    first, last = _extent(lines)
    marks = [
        Mark(
            step=min(max(finding.where.step, first), last),
            css=str(finding.severity),
            title=f"{finding.rule} {finding.slug}, {describe_place(finding.where)}",
            href=f"#f-{finding.id}" if index < NUM_SHOWN else "#findings",
        )
        for index, finding in enumerate(findings)
        if finding.where.step is not None
    ]
    title = "loss" if scale.kind is Kind.LINEAR else f"loss ({scale.kind} scale)"
    label = f"Loss over steps {first} to {last} with {len(marks)} findings marked"
    return join([_plot(series, logs, marks, scale, title=title, label=label), _legend(lines)])


def draw_guard_share(logs: Sequence[LogSummary]) -> Markup | None:
    """Return the guard's share of the step time, or None where it is not on record."""
    series = [(log, log.guard_share) for log in logs if log.guard_share.num_values]
    lines = _lines(series, logs, MAX_POINTS)
    means = sorted(bucket.mean for line in lines for bucket in line.buckets if bucket.count)
    if not means:
        return None
    # A single slow step must not flatten the rest: it is clipped at the edge.
    usual = means[int(0.98 * (len(means) - 1))]
    scale = Scale(kind=Kind.LINEAR, low=0.0, high=max(min(1.5 * usual, means[-1]) * 1.1, 0.1))
    first, last = _extent(lines)
    label = f"Guard's share of the step time over steps {first} to {last}"
    return _plot(series, logs, [], scale, title="guard, % of step time", label=label, squash=0.62)


def _lines(
    series: Sequence[tuple[LogSummary, Series]], logs: Sequence[LogSummary], max_points: int
) -> list[Line]:
    # Many ranks share the room that one would have: the page stays small.
    limit = max(48, min(max_points, 8 * max_points // max(len(series), 1)))
    return [
        Line(label=_label(log, logs), css=_color(log, logs), buckets=values.folded(limit))
        for log, values in series
    ]


def _extent(lines: Sequence[Line]) -> tuple[int, int]:
    first = min(line.buckets[0].first for line in lines)
    return first, max(line.buckets[-1].last for line in lines)


def _plot(
    series: Sequence[tuple[LogSummary, Series]],
    logs: Sequence[LogSummary],
    marks: Sequence[Mark],
    scale: Scale,
    *,
    title: str,
    label: str,
    squash: float = 1.0,
) -> Markup:
    parts: list[object] = []
    for css, width, height, max_points in SIZES:
        lines = _lines(series, logs, max_points)
        first, last = _extent(lines)
        frame = Frame(
            width=width,
            height=height * squash,
            left=58.0,
            first_step=first,
            last_step=last,
            scale=scale,
        )
        parts.append(
            draw_chart(lines, marks, frame, css=css, label=label, y_title=title, y_text=_tick_text)
        )
    parts.append(tag("output", class_="readout", aria_hidden="true"))
    parts.append(tag("template", _hover_data(_lines(series, logs, MAX_POINTS)), class_="values"))
    return tag("div", parts, class_="plot")


def _hover_data(lines: Sequence[Line]) -> Markup:
    """Return what the page's script shows under the pointer: label, then step and text pairs."""
    data = [
        [line.label, [[b.first, b.last, _bucket_text(b)] for b in line.buckets]]
        for line in lines[:16]
    ]
    return Markup(escape(json.dumps(data, separators=(",", ":"))))


def _bucket_text(bucket: Bucket) -> str:
    if not bucket.count:
        return "not finite"
    if bucket.low == bucket.high:
        text = f"{bucket.mean:.6g}"
    else:
        text = f"{bucket.mean:.5g} ({bucket.low:.5g} to {bucket.high:.5g})"
    return f"{text}, not finite in {bucket.broken}" if bucket.broken else text


def _tick_text(value: float) -> str:
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e5:
        return f"{value:.4g}"
    mantissa, _, exponent = f"{value:.2g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def _label(log: LogSummary, logs: Sequence[LogSummary]) -> str:
    attempts = {other.attempt for other in logs}
    label = f"rank {log.rank}"
    return f"{label}, attempt {log.attempt}" if len(attempts) > 1 else label


def _color(log: LogSummary, logs: Sequence[LogSummary]) -> str:
    ranks = sorted({other.rank for other in logs})
    newest = max(other.attempt for other in logs if other.rank == log.rank)
    place = ranks.index(log.rank)
    css = f"s{place}" if place < NUM_COLORS else "s-rest"
    return css if log.attempt == newest else f"{css} older"


def _legend(lines: Sequence[Line]) -> Markup | None:
    if len(lines) < 2:
        return None
    shown = lines[: 2 * NUM_COLORS]
    items: list[object] = [
        tag("li", tag("i", class_=f"key {line.css}"), " ", line.label) for line in shown
    ]
    if len(lines) > len(shown):
        items.append(tag("li", f"and {len(lines) - len(shown)} more"))
    return tag("ul", items, class_="legend")

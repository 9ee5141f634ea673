"""Lines over steps: a band from low to high, gaps where nothing finite is, marks on top."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from everybit.report.markup import Markup, join, tag
from everybit.report.safe_text import plural
from everybit.report.scale import Scale, step_ticks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from everybit.report.series import Bucket

_TOP: Final = 26.0
_BOTTOM: Final = 34.0
_RIGHT: Final = 14.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line: its name, its colour class (`s0` ...), its stretches in order of step."""

    label: str
    css: str
    buckets: Sequence[Bucket]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something at a step: a severity as class, what to say on hover, where a click leads."""

    step: int
    css: str
    title: str
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The plot's place in its picture, in SVG units, and its axes."""

    width: float
    height: float
    left: float
    first_step: int
    last_step: int
    scale: Scale

    @property
    def right(self) -> float:
        """Right edge of the plot."""
        return self.width - _RIGHT

    @property
    def bottom(self) -> float:
        """Lower edge of the plot."""
        return self.height - _BOTTOM

    def x(self, step: float) -> float:
        """Return the abscissa of a step."""
        span = self.last_step - self.first_step
        share = (step - self.first_step) / span if span else 0.5
        return self.left + share * (self.right - self.left)

    def y(self, value: float) -> float:
        """Return the ordinate of a value."""
        return self.bottom - self.scale.place(value) * (self.bottom - _TOP)


def draw_chart(
    lines: Sequence[Line],
    marks: Sequence[Mark],
    frame: Frame,
    *,
    css: str,
    label: str,
    y_title: str,
    y_text: Callable[[float], str],
) -> Markup:
    """Return the picture.

    Args:
        lines: What to draw.
        marks: What to put on it; those too near to tell apart are drawn as one with a count.
        frame: Size and axes.
        css: Class of the `svg` element (`wide` or `narrow`).
        label: What a screen reader says.
        y_title: Name of the vertical axis.
        y_text: A tick's label.
    """
    return tag(
        "svg",
        list(_axes(frame, y_title, y_text)),
        [list(_broken(line, frame)) for line in lines],
        [list(_strokes(line, frame)) for line in lines],
        list(_marks(marks, frame)),
        tag("line", class_="cursor", x1=0, x2=0, y1=_TOP, y2=frame.bottom),
        viewBox=f"0 0 {frame.width:g} {frame.height:g}",
        class_=f"chart {css}",
        role="img",
        aria_label=label,
        data_left=frame.left,
        data_right=frame.right,
        data_first=frame.first_step,
        data_last=frame.last_step,
    )


def _axes(frame: Frame, y_title: str, y_text: Callable[[float], str]) -> Iterator[Markup]:
    yield tag("text", y_title, x=4, y=14, class_="axis-title")
    yield tag("text", "step", x=frame.right, y=frame.height - 3, class_="axis-title end")
    for value in frame.scale.ticks(5):
        y = frame.y(value)
        yield tag("line", class_="grid", x1=frame.left, x2=frame.right, y1=y, y2=y)
        yield tag("text", y_text(value), x=frame.left - 6, y=y + 4, class_="tick end")
    yield tag(
        "line", class_="base", x1=frame.left, x2=frame.right, y1=frame.bottom, y2=frame.bottom
    )
    for step in step_ticks(frame.first_step, frame.last_step, max(2, int(frame.width / 110))):
        x = frame.x(step)
        yield tag("line", class_="base", x1=x, x2=x, y1=frame.bottom, y2=frame.bottom + 4)
        yield tag("text", f"{step:,}", x=x, y=frame.bottom + 17, class_="tick middle")


def _segments(buckets: Sequence[Bucket]) -> Iterator[list[Bucket]]:
    """Cut where nothing finite is on record: a NaN, or steps that are missing."""
    strides = sorted(b.first - a.first for a, b in pairwise(buckets))
    usual = strides[len(strides) // 2] if strides else 1
    segment: list[Bucket] = []
    for bucket in buckets:
        if segment and (not bucket.count or bucket.first - segment[-1].last > 4 * usual):
            yield segment
            segment = []
        if bucket.count:
            segment.append(bucket)
    if segment:
        yield segment


def _strokes(line: Line, frame: Frame) -> Iterator[Markup]:
    for segment in _segments(line.buckets):
        places = [(frame.x((b.first + b.last) / 2), frame.y(b.mean)) for b in segment]
        highs = [(x, frame.y(b.high)) for (x, _), b in zip(places, segment, strict=True)]
        lows = [(x, frame.y(b.low)) for (x, _), b in zip(places, segment, strict=True)]
        if any(low[1] - high[1] > 0.5 for low, high in zip(lows, highs, strict=True)):
            if len(segment) == 1:
                (x, top), (_, foot) = highs[0], lows[0]
                yield tag("line", class_=f"span {line.css}", x1=x, x2=x, y1=top, y2=foot)
            else:
                yield tag("path", class_=f"band {line.css}", d=_path(highs + lows[::-1], "Z"))
        if len(places) == 1:
            yield tag("circle", class_=f"dot {line.css}", cx=places[0][0], cy=places[0][1], r=2.5)
        else:
            yield tag("path", class_=f"stroke {line.css}", d=_path(places))


def _broken(line: Line, frame: Frame) -> Iterator[Markup]:
    """Shade the stretches that hold NaN or infinite values; mark where each begins."""
    start: Bucket | None = None
    last: Bucket | None = None
    for bucket in [*line.buckets, None]:
        if bucket is not None and bucket.broken:
            start, last = start or bucket, bucket
            continue
        if start is not None and last is not None:
            left, right = frame.x(start.first_broken), frame.x(last.last)
            title = tag("title", f"{line.label}: not finite from step {start.first_broken:,}")
            width = max(right - left, 2.0)
            height = frame.bottom - _TOP
            yield tag("rect", title, class_="gap", x=left, y=_TOP, width=width, height=height)
            yield tag(
                "path",
                title,
                class_="cross",
                d=f"M{left - 4:.1f} {frame.bottom - 12:.1f}l8 8m0 -8l-8 8",
            )
        start = last = None


def _marks(marks: Sequence[Mark], frame: Frame) -> Iterator[Markup]:
    groups: list[list[Mark]] = []
    for mark in sorted(marks, key=lambda mark: mark.step):
        if groups and frame.x(mark.step) - frame.x(groups[-1][0].step) < 18:
            groups[-1].append(mark)
        else:
            groups.append([mark])
    for group in groups:
        # The gravest speaks for a group; marks arrive gravest first and sorting keeps that order.
        order = ("error", "warning", "note")
        gravest = min(group, key=lambda mark: order.index(mark.css) if mark.css in order else 9)
        x = frame.x(gravest.step)
        told = [mark.title for mark in group[:6]]
        if len(group) > 6:
            told.append(f"and {len(group) - 6:,} more")
        size = "" if len(group) == 1 else str(len(group)) if len(group) < 100 else "99+"
        yield tag(
            "a",
            tag("title", join(told, "\n")),
            tag("line", x1=x, x2=x, y1=_TOP - 4, y2=frame.bottom),
            tag("circle", cx=x, cy=_TOP - 12, r=9),
            tag("text", size or "!", x=x, y=_TOP - 8, class_="middle"),
            href=gravest.href,
            class_=f"mark {gravest.css}",
            aria_label=f"{plural(len(group), 'finding')}: {gravest.title}",
        )


def _path(places: Sequence[tuple[float, float]], end: str = "") -> Markup:
    return Markup("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places) + end)

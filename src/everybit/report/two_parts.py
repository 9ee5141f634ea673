"""Two runs in pictures: a strip a link over the steps, a bar a module at the step they part at."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from everybit.report.markup import Markup, join, tag
from everybit.report.safe_text import number
from everybit.report.sections_html import draw_region
from everybit.report.words import tell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Stretches of a strip at most.
MAX_STRETCHES: Final = 240
#: Modules in the table at most.
MAX_MODULES: Final = 200
_HEIGHT: Final = 14
#: Distances from which on a bar is drawn, and at which it is full: powers of ten.
_SMALLEST, _LARGEST = -9.0, 0.0


@dataclass(slots=True, kw_only=True)
class LinkStrip:
    """One link over the steps that were compared.

    Attributes:
        link: Its name.
        states: By place in the list of steps, whether all of its values are equal; None where it is
            not on record in both.
        num_values: Values compared.
        num_differing: Of these.
    """

    link: str
    states: list[bool | None]
    num_values: int = 0
    num_differing: int = 0


@dataclass(slots=True, kw_only=True)
class Strips:
    """The links of two runs over the steps.

    Attributes:
        steps: Steps compared, ascending, one a stretch.
        last: The last step on record in both.
        links: Their strips, in causal order.
    """

    steps: list[int] = field(default_factory=list)
    last: int = 0
    links: list[LinkStrip] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleRow:
    """One module at the step at which two runs part.

    Attributes:
        module: Its qualified name, "" for the root.
        num_values: Values of it that both runs have on record.
        num_differing: How many differ.
        distance: The largest relative distance of a value of it; None where only digests are known.
    """

    module: str
    num_values: int
    num_differing: int
    distance: float | None = None


def draw_strips(strips: Strips) -> Markup:
    """Return the strips, and their numbers as a table."""
    if not strips.steps:
        return tag("p", tell("two.no_steps"), class_="quiet")
    rows = [_strip_row(each, strips) for each in strips.links]
    head = tag(
        "tr",
        tag("th", tell("two.link"), scope="col"),
        tag("th", tell("two.strip", first=strips.steps[0], last=strips.last), scope="col"),
        tag("th", tell("two.compared"), scope="col", class_="figure"),
        tag("th", tell("two.differing"), scope="col", class_="figure"),
        tag("th", tell("two.from"), scope="col", class_="figure"),
    )
    table = tag("table", tag("thead", head), tag("tbody", rows), class_="strips")
    return draw_region(table, "section-steps")


def _strip_row(each: LinkStrip, strips: Strips) -> Markup:
    known = [state for state in each.states if state is not None]
    differing = [step for step, ok in zip(strips.steps, each.states, strict=True) if ok is False]
    return tag(
        "tr",
        tag("th", tell(f"link.{each.link}"), scope="row"),
        tag("td", _strip(each.states)),
        tag("td", f"{len(known):,}", class_="figure"),
        tag("td", f"{len(differing):,}", class_=f"figure {'bad' if differing else ''}".strip()),
        tag("td", f"{differing[0]:,}" if differing else "-", class_="figure"),
    )


def _strip(states: Sequence[bool | None]) -> Markup:
    """Return a picture of equal and unequal stretches; its numbers stand beside it."""
    bars = []
    start = 0
    for at in range(1, len(states) + 1):
        if at < len(states) and states[at] is states[start]:
            continue
        kind = {True: "equal", False: "unequal", None: "unknown"}[states[start]]
        bars.append(tag("rect", x=start, y=0, width=at - start, height=_HEIGHT, class_=kind))
        start = at
    return tag(
        "svg",
        bars,
        viewBox=f"0 0 {len(states)} {_HEIGHT}",
        preserveAspectRatio="none",
        class_="strip",
        aria_hidden="true",
    )


def draw_modules(rows: Sequence[ModuleRow]) -> Markup:
    """Return the modules in the order of the record, with a bar for the distance of each."""
    if not rows:
        return tag("p", tell("two.no_modules"), class_="quiet")
    head = tag(
        "tr",
        tag("th", tell("two.module"), scope="col"),
        tag("th", tell("two.values"), scope="col", class_="figure"),
        tag("th", tell("two.distance"), scope="col"),
        tag("th", class_="figure", aria_hidden="true"),
    )
    body = [
        tag(
            "tr",
            tag("th", each.module or tell("two.root"), scope="row", lang="en"),
            tag(
                "td",
                f"{each.num_differing:,} / {each.num_values:,}",
                class_=f"figure {'bad' if each.num_differing else ''}".strip(),
            ),
            tag("td", "-" if each.distance is None else number(each.distance), class_="figure"),
            tag("td", _bar(each)),
        )
        for each in rows[:MAX_MODULES]
    ]
    table = tag("table", tag("thead", head), tag("tbody", body), class_="strips modules")
    return draw_region(table, "section-modules")


def _bar(row: ModuleRow) -> Markup:
    if row.distance is not None and row.distance > 0 and math.isfinite(row.distance):
        place = (math.log10(row.distance) - _SMALLEST) / (_LARGEST - _SMALLEST)
        share = min(max(place, 0.02), 1.0)
    else:
        share = row.num_differing / max(row.num_values, 1)
    filled = tag("rect", x=0, y=0, width=100 * share, height=_HEIGHT, class_="unequal")
    return tag(
        "svg",
        filled if row.num_differing else None,
        viewBox=f"0 0 100 {_HEIGHT}",
        preserveAspectRatio="none",
        class_="strip",
        aria_hidden="true",
    )


def draw_explained(entries: Sequence[Mapping[str, Any]]) -> Markup:
    """Return the differences of environment, code and settings."""
    if not entries:
        return tag("p", tell("two.none"), class_="quiet")
    head = tag(
        "tr",
        tag("th", tell("two.entry"), scope="col"),
        tag("th", tell("two.before"), scope="col"),
        tag("th", tell("two.after"), scope="col"),
        tag("th", tell("two.why"), scope="col"),
    )
    rows = [row for each in entries[:MAX_MODULES] for row in _explained_rows(each)]
    table = tag("table", tag("thead", head), tag("tbody", rows), class_="entries")
    return draw_region(table, "section-explained")


def _explained_rows(entry: Mapping[str, Any]) -> list[Markup]:
    """Return an entry's row, and behind it one with the lines of code that were changed."""
    rows = [
        tag(
            "tr",
            tag("th", str(entry.get("entry", "")), scope="row", lang="en"),
            [tag("td", _plain(entry.get(key)), lang="en") for key in ("before", "after", "why")],
        )
    ]
    if entry.get("lines"):
        lines = join(entry["lines"], "\n")
        block = tag("pre", tag("code", lines), tabindex=0, class_="command", lang="en")
        rows.append(tag("tr", tag("td", block, colspan=4)))
    return rows


def draw_samples(told: Mapping[str, Any]) -> Markup:
    """Return what two evaluations differ in, and what is to blame."""
    counts = tell(
        "two.samples",
        differing=told["samples_differing"],
        samples=told["samples"],
        changed=told["answers_changed"],
        answers=told["answers"],
    )
    return join([tag("p", counts), tag("p", f"{told['blame']}: {told['why']}", lang="en")])


def _plain(value: Any) -> str:
    return "-" if value in (None, "") else str(value)[:400]

"""A drill as one self-contained page: a heat map, and what became of the faults at each place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from everybit.report.catalogue import WORDS
from everybit.report.drill_cells import grid_of, loss_text, rules_text, share_text, struck
from everybit.report.markup import Markup, join, tag
from everybit.report.masthead import draw_bar
from everybit.report.safe_text import printable
from everybit.report.sections import draw_section
from everybit.report.sections_html import clock_text, draw_region
from everybit.report.self_contained import draw_head, read_file
from everybit.report.timelines_data import as_script_text
from everybit.report.words import say, tell

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The share caught, in classes of the style sheet: none, some, most, all.
_CLASSES: Final = ("heat0", "heat1", "heat2", "heat3")
_FIGURES: Final = ("caught", "missed", "noted", "raised", "harmless", "placed", "exact", "same_end")


def render_drill_page(table: Mapping[str, Any], *, made_at_s: float) -> str:
    """Return the whole page as HTML.

    Args:
        table: As `everybit drill --json` prints it.
        made_at_s: Now, seconds since the epoch.
    """
    style, scripts = read_file("style.css"), [read_file("page.js")]
    target = printable(str(table["target"]))
    title = say("drill.title", target=target)
    sections = (
        ("map", tell("drill.map.lead"), _map(table)),
        ("sites", None, _sites(table)),
        ("clean", None, _clean(table)),
    )
    words = {**{key: WORDS[key] for key in ("copy", "copied")}, "title": (title.en, title.zh)}
    body = [
        tag("a", tell("skip"), href="#main", class_="skip"),
        draw_bar([key for key, _, _ in sections], {}, target),
        tag(
            "main",
            _answer(table),
            [draw_section(key, lead, content) for key, lead, content in sections],
            id="main",
            tabindex=-1,
        ),
        tag(
            "footer",
            tag("p", tell("footer", version=table["version"], when=clock_text(made_at_s))),
            tag("p", tell("drill.footer")),
        ),
        tag("script", as_script_text(words), type="application/json", id="words"),
        [tag("script", script) for script in scripts],
    ]
    page = tag("html", draw_head(title.en, style, scripts), tag("body", body), lang="en")
    return f"<!doctype html>\n{page}\n"


def _answer(table: Mapping[str, Any]) -> Markup:
    alarms = table["false_alarms"]["alarms"]
    missed = sum(cell["missed"] + cell["noted"] for cell in table["broken"])
    told = (
        tell("drill.broken", alarms=alarms, missed=missed)
        if alarms or missed
        else tell("drill.kept")
    )
    trials = table["trials"]
    return tag(
        "section",
        tag("h1", told, id="verdict-title"),
        tag(
            "p",
            tell("drill.trials", done=trials["done"], asked=trials["asked"], seed=table["seed"]),
            class_="quiet",
        ),
        class_=f"verdict {'error' if alarms or missed else 'good'}",
        id="verdict",
        aria_labelledby="verdict-title",
    )


def _map(table: Mapping[str, Any]) -> Markup:
    shapes, rows = grid_of(table["cells"])
    head = tag(
        "tr",
        tag("th", tell("drill.site"), scope="col"),
        tag("th", tell("drill.dtype"), scope="col"),
        [tag("th", shape, scope="col") for shape in shapes],
    )
    body = [
        tag(
            "tr",
            tag("th", site, scope="row"),
            tag("td", dtype),
            [_cell(cells.get(shape)) for shape in shapes],
        )
        for (site, dtype), cells in rows.items()
    ]
    return draw_region(
        tag("table", tag("thead", head), tag("tbody", body), class_="heat"), "section-map"
    )


def _cell(cell: Mapping[str, Any] | None) -> Markup:
    if cell is None:
        return tag("td", "-", class_="quiet")
    count = struck(cell)
    if not count:
        return tag("td", share_text(cell), class_="quiet")
    share = cell["caught"] / count
    index = 3 if share == 1 else 2 if share >= 0.5 else 1 if share > 0 else 0
    return tag("td", share_text(cell), class_=_CLASSES[index], title=rules_text(cell["rules"]))


def _sites(table: Mapping[str, Any]) -> Markup:
    head = tag(
        "tr",
        tag("th", tell("drill.site"), scope="col"),
        [tag("th", tell(f"drill.{name}"), scope="col", class_="figure") for name in _FIGURES],
        tag("th", tell("drill.steps"), scope="col", class_="figure"),
        tag("th", tell("drill.rules"), scope="col"),
        tag("th", tell("drill.loss"), scope="col"),
    )
    rows = [
        tag(
            "tr",
            tag("th", site["site"], scope="row"),
            [tag("td", f"{site[name]:,}", class_="figure") for name in _FIGURES],
            tag("td", site["steps_after"], class_="figure"),
            tag("td", rules_text(site["rules"])),
            tag("td", loss_text(site["loss_change"])),
        )
        for site in table["sites"]
    ]
    return draw_region(tag("table", tag("thead", head), tag("tbody", rows)), "section-sites")


def _clean(table: Mapping[str, Any]) -> Markup:
    alarms, cost = table["false_alarms"], table["cost"]
    told = []
    if alarms["steps"]:
        told.append(
            tell(
                "drill.alarms",
                alarms=alarms["alarms"],
                steps=alarms["steps"],
                bound=f"{alarms['upper_bound']:.2g}",
                confidence=f"{alarms['confidence']:.0%}",
            )
        )
    if cost["guarded_over_bare"] is not None:
        told.append(tell("drill.cost", ratio=cost["guarded_over_bare"]))
    return join(tag("p", line) for line in told)

"""The page's plain sections: coverage, next steps, environment."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from everybit.report.findings_html import draw_command
from everybit.report.markup import Markup, join, tag, text
from everybit.report.safe_text import number
from everybit.report.words import pair, recorded, tell

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from everybit.core.verdict import Coverage
    from everybit.report.next_steps import NextStep

MAX_ENTRIES: Final = 2000
#: Sections of the environment that are read most; the others are folded.
_OPEN: Final = {"torch", "threads", "determinism"}


def draw_coverage(coverage: Coverage) -> Markup:
    """Return what was checked and what was not, side by side."""
    checked = [
        tag("li", tag("b", f"{item.count:,}"), " ", pair(recorded(item.what)))
        for item in coverage.checked
    ]
    skipped = [
        tag(
            "li",
            tag("b", pair(recorded(item.what))),
            tag("span", tell("coverage.promised"), class_="badge warning")
            if item.promised
            else None,
            tag("p", pair(recorded(item.why)), class_="quiet"),
        )
        for item in sorted(coverage.skipped, key=lambda item: not item.promised)
    ]
    nothing = tag("li", tell("coverage.nothing"), class_="quiet")
    none = tag("li", tell("coverage.none"), class_="quiet")
    return tag(
        "div",
        tag("div", tag("h3", tell("coverage.checked")), tag("ul", checked or nothing, role="list")),
        tag("div", tag("h3", tell("coverage.skipped")), tag("ul", skipped or none, role="list")),
        class_="columns",
    )


def draw_next(steps: Sequence[NextStep]) -> Markup:
    """Return the commands to go on with."""
    items = [tag("li", draw_command(step.command), tag("p", pair(step.purpose))) for step in steps]
    return tag("ol", items, class_="ways", role="list")


def draw_environment(header: Mapping[str, Any]) -> Markup:
    """Return the environment of one log as tables, a section each."""
    environment = header.get("environment")
    if not isinstance(environment, Mapping) or not environment:
        return tag("p", tell("environment.none"), class_="quiet")
    plain = {k: v for k, v in environment.items() if not isinstance(v, Mapping | list | tuple)}
    groups = [("", plain)] if plain else []
    groups += [
        (str(name), value) for name, value in environment.items() if name not in plain and value
    ]
    sections = [_section(index, name, value) for index, (name, value) in enumerate(groups)]
    return tag("div", sections, class_="environment")


def clock_text(seconds: Any) -> str:
    """Return a wall clock time in UTC, or nothing where it cannot be one."""
    try:
        return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (TypeError, ValueError, OverflowError, OSError):
        return ""


def draw_region(content: Markup, labelled_by: str) -> Markup:
    """Return a table that scrolls where it is too wide, under a name."""
    # What scrolls must be reachable with the keyboard.
    return tag(
        "div", content, class_="scroll", tabindex=0, role="group", aria_labelledby=labelled_by
    )


def _section(index: int, name: str, value: Any) -> Markup:
    entries = list(_flatten(value))
    rows = [
        tag("tr", tag("th", key, scope="row", lang="en"), tag("td", shown))
        for key, shown in entries
    ]
    if len(rows) >= MAX_ENTRIES:
        rows.append(tag("tr", tag("td", tell("environment.more"), colspan=2)))
    key = f"environment-{index}"
    table = draw_region(tag("table", tag("tbody", rows), class_="entries"), key)
    # A section of one value (why it is absent, say) needs no unfolding.
    single = len(entries) == 1
    told = join([*entries[0]], ": ") if single else tell("unit.values", n=len(entries))
    title = tag("span", text(name, 200), lang="en") if name else tell("environment.general")
    summary = tag("summary", tag("b", title, id=key), " ", tag("span", told, class_="quiet"))
    return tag("details", summary, table, open=(name in _OPEN or not name) and not single)


def _flatten(value: Any, prefix: str = "") -> Iterator[tuple[Markup, Markup]]:
    """Yield dotted names and values; a few levels and a bounded number of them."""
    todo: list[tuple[str, Any]] = [(prefix, value)]
    count = 0
    while todo and count < MAX_ENTRIES:
        name, item = todo.pop()
        nested = name.count(".") < 5
        if isinstance(item, Mapping) and item and nested:
            inner = [(f"{name}.{key}" if name else str(key), value) for key, value in item.items()]
            todo.extend(reversed(inner))
            continue
        count += 1
        yield text(name or "value", 200), _value(name, item)


def _value(name: str, item: Any) -> Markup:
    if isinstance(item, bool):
        return tell("yes" if item else "no")
    if item is None:
        return tell("none")
    if name == "captured_at":
        return text(clock_text(item) or str(item))
    if isinstance(item, float):
        return text(number(item))
    if isinstance(item, list | tuple):
        return text(", ".join(str(part) for part in item[:200]), 2000)
    return text(str(item), 2000)

"""The page's plain sections: coverage, ranks and attempts, cost, environment."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from everybit.report.findings_html import prose
from everybit.report.loss_svg import draw_guard_share
from everybit.report.markup import Markup, join, tag, text
from everybit.report.run_summary import State
from everybit.report.safe_text import number, plural
from everybit.report.stats import format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from everybit.core.verdict import Coverage
    from everybit.report.run_summary import LogSummary

MAX_LOGS: Final = 128
MAX_ENTRIES: Final = 2000
#: Sections of the environment that are read most; the others are folded.
_OPEN: Final = {"torch", "threads", "determinism"}


def draw_coverage(coverage: Coverage) -> Markup:
    """Return what was checked and what was not, side by side."""
    checked = [
        tag("li", tag("b", f"{item.count:,}"), " ", prose(item.what)) for item in coverage.checked
    ]
    skipped = [
        tag(
            "li",
            tag("b", prose(item.what)),
            tag("span", "promised", class_="badge warning") if item.promised else None,
            tag("br"),
            prose(item.why),
            class_="missed" if item.promised else None,
        )
        for item in sorted(coverage.skipped, key=lambda item: not item.promised)
    ]
    nothing = tag("li", "nothing on record", class_="quiet")
    none = tag("li", "nothing that the guard knows of", class_="quiet")
    return tag(
        "div",
        tag("div", tag("h3", "Checked"), tag("ul", checked or nothing)),
        tag("div", tag("h3", "Not checked"), tag("ul", skipped or none)),
        class_="columns",
    )


def draw_logs(logs: Sequence[LogSummary]) -> Markup:
    """Return the table of ranks and attempts."""
    if not logs:
        return tag("p", "No log is on record.", class_="quiet")
    names = ("rank", "attempt", "state", "steps", "from", "to", "first step at", "step time")
    rows = [
        tag(
            "tr",
            tag("td", log.rank),
            tag("td", log.attempt),
            tag("td", _state(log)),
            tag("td", f"{log.num_steps:,}", class_="figure"),
            tag("td", _step(log.first_step), class_="figure"),
            tag("td", _step(log.last_step), class_="figure"),
            tag("td", clock_text(log.started_s)),
            tag("td", format_seconds(log.seconds) if log.num_steps else "", class_="figure"),
        )
        for log in logs[:MAX_LOGS]
    ]
    head = tag("tr", [tag("th", name, scope="col") for name in names])
    table = tag("table", tag("thead", head), tag("tbody", rows))
    more = f"and {len(logs) - MAX_LOGS:,} more logs" if len(logs) > MAX_LOGS else None
    return join([tag("div", table, class_="scroll"), more and tag("p", more, class_="quiet")])


def draw_cost(logs: Sequence[LogSummary]) -> Markup:
    """Return what watching cost: the guard's share of the step time."""
    seconds = sum(log.seconds for log in logs)
    guard = sum(log.guard_seconds for log in logs)
    if seconds <= 0:
        return tag("p", "No step time is on record.", class_="quiet")
    words = [
        "The guard used ",
        tag("b", f"{100 * guard / seconds:.2f} %"),
        f" of the step time: {format_seconds(guard)} of {format_seconds(seconds)}.",
    ]
    return join([tag("p", words), draw_guard_share(logs)])


def draw_environment(header: Mapping[str, Any]) -> Markup:
    """Return the environment of one log as tables, a section each."""
    environment = header.get("environment")
    if not isinstance(environment, Mapping) or not environment:
        return tag("p", "No environment is on record.", class_="quiet")
    plain = {k: v for k, v in environment.items() if not isinstance(v, Mapping | list | tuple)}
    sections = [_section("", plain)] if plain else []
    for name, value in environment.items():
        if name not in plain and value:
            sections.append(_section(str(name), value))
    return join(sections)


def clock_text(seconds: Any) -> str:
    """Return a wall clock time in UTC, or nothing where it cannot be one."""
    try:
        return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (TypeError, ValueError, OverflowError, OSError):
        return ""


def _section(name: str, value: Any) -> Markup:
    entries = list(_flatten(value))
    rows = [tag("tr", tag("th", key, scope="row"), tag("td", shown)) for key, shown in entries]
    if len(rows) >= MAX_ENTRIES:
        rows.append(tag("tr", tag("td", "and more, in the run's own record", colspan=2)))
    table = tag("div", tag("table", tag("tbody", rows), class_="entries"), class_="scroll")
    if not name:
        return table
    # A section of one value (why it is absent, say) needs no unfolding.
    single = len(entries) == 1
    told = join([*entries[0]], ": ") if single else plural(len(entries), "value")
    title = tag("summary", name, " ", tag("span", told, class_="quiet"))
    return tag("details", title, table, open=name in _OPEN and not single)


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
        shown = clock_text(item) if name == "captured_at" else _value(item)
        yield text(name or "value", 200), text(shown, 2000)


def _value(item: Any) -> str:
    if isinstance(item, bool):
        return "yes" if item else "no"
    if isinstance(item, float):
        return number(item)
    if isinstance(item, list | tuple):
        return ", ".join(str(part) for part in item[:200])
    return "none" if item is None else str(item)


def _state(log: LogSummary) -> Markup:
    css = {State.CLEAN: "good", State.RUNNING: "note"}.get(log.state, "error")
    extra = [log.detail] if log.detail else []
    extra += ["last frame cut"] if log.torn else []
    extra += ["record damaged"] if log.damaged else []
    return join(
        [
            tag("span", log.state, class_=f"badge {css}"),
            tag("span", " ", ", ".join(extra), class_="quiet") if extra else None,
        ]
    )


def _step(step: int | None) -> str:
    return "" if step is None else f"{step:,}"

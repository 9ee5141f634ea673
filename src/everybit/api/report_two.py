"""The page of two runs: what it shows is gathered here from their records."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, Final

from everybit._version import __version__
from everybit.core.atomic import check_writable, write_atomically
from everybit.core.errors import UsageError
from everybit.core.link import Link
from everybit.core.trace_name import parse_trace_name
from everybit.diff.link_difference import compare_steps, compare_tables
from everybit.ledger import open_run
from everybit.report.series import Grid, Series
from everybit.report.timelines import LineKey, Timelines
from everybit.report.two_parts import MAX_STRETCHES, LinkStrip, ModuleRow, Strips
from everybit.report.two_runs import render_two_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from everybit.core.observation import StepRecord, TensorTable
    from everybit.core.verdict import Verdict
    from everybit.ledger import LogReader

#: In the folder of the first run, where no other place is named.
PAGE_NAME: Final = "against.html"
#: Stretches of a chart at most: three lines and their bands stay below what a page may weigh.
_MAX_POINTS: Final = 2000


def check_two_run_page(a: Path, b: Path, page: Path) -> None:
    """Make sure before the work begins that there are two runs and a place for the page.

    Raises:
        PathError: A folder is no run, or the page cannot be written.
        UsageError: A side is a file.
    """
    for path in (a, b):
        if path.exists() and not path.is_dir():
            raise UsageError("a page shows two runs", where=str(path), todo="give run folders")
        open_run(path)
    check_writable(page)


def compare_on_page(a: Path, b: Path, page: Path | None = None) -> Path:
    """Compare two runs, write the page of both, and return where it lies.

    Raises:
        PathError: A folder is no run, or the page cannot be written.
        UsageError: A side is a file.
    """
    from everybit.api.diff import diff

    page = page or a / PAGE_NAME
    check_two_run_page(a, b, page)
    write_two_run_page(diff(a, b), a, b, page)
    return page


def write_two_run_page(
    verdict: Verdict, a: Path, b: Path, page: Path, *, clock: Callable[[], float] = time.time
) -> None:
    """Write the page of two runs that were compared.

    Args:
        verdict: Of `everybit diff`.
        a: Run A.
        b: Run B.
        page: Where to write it, readable by its owner alone.
        clock: Wall clock, seconds since the epoch.

    Raises:
        PathError: A folder is no run, or the page cannot be written.
    """
    runs = open_run(a), open_run(b)
    rank = verdict.first.where.rank if verdict.first is not None else None
    rank = rank if rank is not None and all(rank in run.ranks for run in runs) else None
    logs = [run.log(run.ranks[0] if rank is None else rank) for run in runs if run.ranks]
    if len(logs) < 2:
        strips, timelines, modules = Strips(), _empty(), []
    else:
        step = _parting_step(verdict)
        strips = _strips(logs[0], logs[1], step)
        timelines = _timelines(logs[0], logs[1], step)
        modules = [] if step is None else _modules(logs[0].step(step), logs[1].step(step))
    html = render_two_runs(
        verdict,
        timelines,
        strips,
        modules,
        names=(str(a), str(b)),
        made_at_s=clock(),
        version=__version__,
    )
    write_atomically(page, html.encode("utf-8", "backslashreplace"), mode=0o600)


def _parting_step(verdict: Verdict) -> int | None:
    if verdict.first is None:
        return None
    seen: Any = verdict.findings[0].evidence.get("seen_at") if verdict.findings else None
    if isinstance(seen, dict) and isinstance(seen.get("step"), int):
        return int(seen["step"])
    return verdict.first.where.step


def _empty() -> Timelines:
    return Timelines(grid=Grid.over(range(1), 1))


def _timelines(a: LogReader, b: LogReader, step: int | None) -> Timelines:
    """Return the numbers of both runs, and the distance of their losses, on one grid."""
    ranges = [log.step_range for log in (a, b) if log.num_steps]
    if not ranges:
        return _empty()
    steps = range(min(r.start for r in ranges), max(r.stop for r in ranges))
    watched = () if step is None else (step,)
    made = Timelines(grid=Grid.over(steps, _MAX_POINTS), watched=frozenset(watched))
    lines: list[dict[str, Series]] = [
        made.lines.setdefault(LineKey(rank=number, attempt=0, name=name), {})
        for number, name in enumerate(("A", "B"))
    ]
    distances = Series(made.grid, made.watched)
    waiting: dict[int, float] = {}
    for log, held in ((a, lines[0]), (b, lines[1])):
        for facts in log.facts():
            made.take(held, facts)
            if not facts.losses:
                continue
            if log is a:
                waiting[facts.step] = facts.losses[0]
            elif facts.step in waiting:
                distances.add(facts.step, _relative(waiting.pop(facts.step), facts.losses[0]))
    if distances.num_values or distances.broken:
        lines[1]["distance"] = distances
    return made


def _relative(one: float, other: float) -> float:
    if one == other or (math.isnan(one) and math.isnan(other)):
        return 0.0
    return abs(one - other) / abs(one) if one else abs(other)


def _strips(a: LogReader, b: LogReader, step: int | None) -> Strips:
    """Compare one step of each stretch, and the one at which the runs part."""
    both = range(
        max(a.step_range.start, b.step_range.start), min(a.step_range.stop, b.step_range.stop)
    )
    if not both:
        return Strips()
    width = max(-(-len(both) // MAX_STRETCHES), 1)
    wanted = list(both[::width])
    if step is not None and step in both:
        # The stretch of the parting shows it.
        wanted[(step - both.start) // width] = step
    strips = Strips(last=both[-1])
    found: dict[Link, LinkStrip] = {}
    for number in wanted:
        records = a.step(number), b.step(number)
        if records[0] is None or records[1] is None:
            continue
        strips.steps.append(number)
        _add_step(found, records[0], records[1], len(strips.steps))
    for each in found.values():
        each.states += [None] * (len(strips.steps) - len(each.states))
    strips.links = [found[link] for link in sorted(found, key=lambda link: link.position)]
    return strips


def _add_step(found: dict[Link, LinkStrip], a: StepRecord, b: StepRecord, num_steps: int) -> None:
    differing = {each.link for each in compare_steps(a, b, set())[0]}
    links = {table.link for table in a.tables} & {table.link for table in b.tables}
    for link in links:
        strip = found.setdefault(link, LinkStrip(link=str(link), states=[]))
        strip.states += [None] * (num_steps - 1 - len(strip.states))
        strip.states.append(link not in differing)


def _modules(a: StepRecord | None, b: StepRecord | None) -> list[ModuleRow]:
    """Count by module the values that differ at one step, in the order of the record."""
    if a is None or b is None:
        return []
    counts: dict[str, list[int]] = {}
    for link in (Link.FORWARD, Link.GRAD, Link.UPDATE):
        mine, theirs = (_of(record, link) for record in (a, b))
        differing = {name for name, _, _ in compare_tables(link, mine, theirs).differing}
        there = {name for table in theirs for name in table.names}
        for table in mine:
            for name in table.names:
                if name in there or name in differing:
                    held = counts.setdefault(_module_of(name), [0, 0])
                    held[0] += 1
                    held[1] += name in differing
    distances = _distances(a, b)
    return [
        ModuleRow(module=name, num_values=num, num_differing=bad, distance=distances.get(name))
        for name, (num, bad) in counts.items()
    ]


def _of(record: StepRecord, link: Link) -> list[TensorTable]:
    return [table for table in record.tables if table.link is link]


def _module_of(name: str) -> str:
    """Return the module that a traced value, a parameter or optimizer state belongs to."""
    traced = parse_trace_name(name)
    if traced is not None:
        return traced.module
    return name.rpartition("::")[2].rpartition(".")[0]


def _distances(a: StepRecord, b: StepRecord) -> dict[str, float]:
    """Return the largest relative distance of block sums by module, where both have them."""
    found: dict[str, float] = {}
    theirs = {
        (table.link, name): row
        for table in b.sums
        for name, row in zip(table.names, table.values, strict=True)
    }
    for table in a.sums:
        for name, row in zip(table.names, table.values, strict=True):
            other = theirs.get((table.link, name))
            if other is None:
                continue
            module = _module_of(name)
            found[module] = max(found.get(module, 0.0), _apart(row, other))
    return found


def _apart(row: Iterable[float], other: Iterable[float]) -> float:
    """Return L2 of the differences of block sums over the L2 norm of A (the last but one)."""
    mine, theirs = list(row), list(other)
    gap = math.sqrt(sum((x - y) ** 2 for x, y in zip(mine[:-2], theirs[:-2], strict=False)))
    size = abs(mine[-2]) if len(mine) > 2 else 0.0
    return gap / size if size and math.isfinite(gap) else (math.inf if gap else 0.0)

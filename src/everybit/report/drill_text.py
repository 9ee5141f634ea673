"""A drill's table as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everybit.report.drill_cells import grid_of, loss_text, rules_text, share_text, struck

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_HEAD = (
    "location",
    "caught",
    "harmless",
    "placed",
    "right at the end",
    "steps",
    "first caught by",
    "missed",
)


def render_drill(table: Mapping[str, Any], *, verbose: bool = False) -> str:
    """Return the table as text for a terminal.

    Args:
        table: As `everybit drill --json` prints it.
        verbose: Tell each location, dtype and pattern as well.
    """
    lines = _aligned([_HEAD, *(_row(site) for site in table["sites"])])
    if verbose:
        shapes, rows = grid_of(table["cells"])
        grid = [("location", "dtype", *shapes)]
        for (site, dtype), cells in rows.items():
            told = [share_text(cells[s]) if s in cells else "" for s in shapes]
            grid.append((site, dtype, *told))
        lines += ["", *_aligned(grid)]
    lines += ["", *summary_of(table)]
    return "\n".join(lines) + "\n"


def summary_of(table: Mapping[str, Any]) -> list[str]:
    """Return what a drill says in a few lines."""
    alarms, trials, cost = table["false_alarms"], table["trials"], table["cost"]
    lines = [f"{trials['done']} of {trials['asked']} trials, seed {table['seed']}"]
    lines += [f"not tried: {why}" for why in trials["why_not"]]
    if alarms["steps"]:
        lines.append(
            f"false alarms: {alarms['alarms']} in {alarms['steps']:,} clean steps"
            f" (at most {alarms['upper_bound']:.2g} a step, {alarms['confidence']:.0%} confidence)"
        )
    if cost["guarded_over_bare"] is not None:
        lines.append(
            f"cost: a guarded step takes {cost['guarded_over_bare']} times a bare one,"
            " every check at every step"
        )
    lines += [
        f"MISSED  {cell['site']}, {cell['dtype']}, {cell['shape']}:"
        f" {cell['missed'] + cell['noted']} of {cell['trials']}"
        for cell in table["broken"]
    ]
    return lines


def _row(site: Mapping[str, Any]) -> tuple[str, ...]:
    caught, missed = site["caught"], site["missed"] + site["noted"] + site["raised"]
    told = []
    if site["missed"]:
        told.append(f"{site['missed']} missed{_what_came(site['loss_change'])}")
    if site["noted"]:
        told.append(f"{site['noted']} noted")
    if site["raised"]:
        told.append(f"{site['raised']} raised")
    return (
        site["site"],
        f"{caught}/{struck(site)}" if caught or missed else "-",
        str(site["harmless"]),
        f"{site['placed']}/{caught}" if caught else "",
        f"{site['same_end']}/{caught}" if caught else "",
        str(site["steps_after"]) if site["steps_after"] is not None else "",
        rules_text(site["rules"]),
        "; ".join(told),
    )


def _what_came(change: float | str | None) -> str:
    """Return what missed faults did to the final loss.

    >>> _what_came(0.5), _what_came(0.0), _what_came(None)
    (', loss moved by 50.0%', ', the final loss is the same', '')
    """
    if change is None:
        return ""
    return f", loss moved by {loss_text(change)}" if change else ", the final loss is the same"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]

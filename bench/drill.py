"""The drill on the built-in models, and its table in `docs/drill.md`.

    python bench/drill.py [--faults 4] [--workers 2] [--results FILE]

Writes `bench/results/drill.json` and the section of the page. With `--results` it goes on where it
was ended, as `everybit drill` does.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from everybit.api.drill import drill
from everybit.report.drill_cells import grid_of, loss_text, rules_text, share_text, struck
from table import write_section

ROOT = Path(__file__).resolve().parent.parent


def sites_table(table: dict[str, Any]) -> str:
    """What became of the faults of each location, over all dtypes and patterns."""
    lines = [
        "| location | caught | harmless | placed | right at the end | first caught by | missed |",
        "|---|---|---|---|---|---|---|",
    ]
    for site in table["sites"]:
        told = [f"{site[name]} {name}" for name in ("missed", "noted", "raised") if site[name]]
        if site["missed"] or site["noted"]:
            moved = loss_text(site["loss_change"])
            told.append("final loss as it was" if moved == "nothing" else f"loss moved by {moved}")
        lines.append(
            f"| {site['site']} | {site['caught']} of {struck(site)} | {site['harmless']} |"
            f" {site['placed']} | {site['same_end']} | {rules_text(site['rules'])} |"
            f" {', '.join(told)} |"
        )
    return "\n".join(lines)


def cells_table(table: dict[str, Any]) -> str:
    """Caught of those that struck, in each location, dtype and pattern."""
    shapes, rows = grid_of(table["cells"])
    lines = [
        f"| location | dtype | {' | '.join(shapes)} |",
        "|---|---|" + "---|" * len(shapes),
    ]
    for (site, dtype), cells in rows.items():
        told = [share_text(cells[shape]) if shape in cells else "" for shape in shapes]
        lines.append(f"| {site} | {dtype} | {' | '.join(told)} |")
    return "\n".join(lines)


def once(table: dict[str, Any]) -> str:
    """What the exact tests promise: faults that struck once, where each bit is tested."""
    kept = [
        cell
        for cell in table["cells"]
        if cell["site"] not in ("loss", "batch", "rng", "reduction")
        and cell["shape"] not in ("stuck", "intermittent")
    ]
    caught, all_ = sum(c["caught"] for c in kept), sum(struck(c) for c in kept)
    return (
        f"Of {all_} faults that struck once, at a place that is tested bit for bit at every step,"
        f" and changed a bit of the run, {caught} were caught."
    )


def head(table: dict[str, Any]) -> str:
    """What was done, in words."""
    if table["settings"]["on_finding"] == "rewind":
        return f"""\
### In the closure form

`python bench/drill.py --closure` (`everybit drill --closure --faults {table["faults"]}`):
{table["trials"]["done"]:,} trials. Each step goes through `guard.step`, which computes it twice,
compares every bit, and puts a step in which anything was found back to its start, to compute it
again."""
    return f"""\
### Around the loop, nothing changed in it

`python bench/drill.py` (`everybit drill --faults {table["faults"]} --seed {table["seed"]}`):
{table["trials"]["done"]:,} trials, each a training of 12 steps. "Caught" is of those that changed a
bit of the run or ended it; "placed" and "right at the end" of those caught. Replay repeats a
computation and leaves the step as it is: a wrong result is found here, and undone in the closure
form below."""


def markdown(table: dict[str, Any]) -> str:
    """The section of the page."""
    alarms, cost = table["false_alarms"], table["cost"]
    return f"""\
{head(table)}

{sites_table(table)}

{once(table)}

{alarms["alarms"]} false alarms in {alarms["steps"]:,} clean steps: at most
{alarms["upper_bound"]:.2g} a step (confidence {alarms["confidence"]:.0%}). A step under every check
takes {cost["guarded_over_bare"]} times a bare one of these models, too small to hide any of it.

{cells_table(table)}
"""


def main() -> None:
    """Drill, keep the table, write the section."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--closure", action="store_true")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--show", type=Path, help="write the section from this table, run nothing")
    given = parser.parse_args()
    if given.show:
        table = json.loads(given.show.read_text(encoding="utf-8"))
    else:
        began = time.perf_counter()
        table = drill(
            faults=given.faults,
            seed=given.seed,
            workers=given.workers,
            closure=given.closure,
            results=given.results,
        ).table
        print(f"{time.perf_counter() - began:.0f} s")
    name = "drill-closure" if table["settings"]["on_finding"] == "rewind" else "drill"
    result = ROOT / "bench" / "results" / f"{name}.json"
    result.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    write_section(name, markdown(table), page=ROOT / "docs" / "drill.md")


if __name__ == "__main__":
    main()

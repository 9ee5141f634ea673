"""Who is to blame where two checkpoints were evaluated on two sides: a table of two by two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everybit.api.cross_cell import is_equal
from everybit.diff.environment import compare_environments

if TYPE_CHECKING:
    from collections.abc import Mapping

    Side = Mapping[str, Any]
    Cell = Mapping[str, Any]


def blame(here: Side, there: Side | None) -> dict[str, Any]:
    """Return the table and what follows from it, JSON-ready.

    The rows are the checkpoints, the columns the sides. Rows that differ blame the weights; columns
    that differ blame what stands between weights and score: another file under the checkpoint's
    name, other inputs, other code or modes, or the environment, asked in this order.
    """
    there = _filled(here, there)
    cells = [[_cell(side, name) for side in (here, there)] for name in "AB"]
    judged: dict[str, Any] = {
        "sides": [f"here ({here['side']})", there["side"] if there else None],
        "cells": cells,
        "table": [[cell["scores"] if cell else None for cell in row] for row in cells],
        "missing": _missing(there),
        "facts": {},
        "blame": [],
    }
    rows = [column for column in range(2) if _differ(cells[0][column], cells[1][column])]
    columns = [row for row in range(2) if _differ(cells[row][0], cells[row][1])]
    told: list[str] = []
    if columns and there is not None:
        names = ["AB"[row] for row in columns]
        link, why, facts = _between(here, there, names)
        judged["blame"].append(link)
        judged["facts"] |= facts
        told.append(why)
    if rows and not (columns and _one_apart(cells)):
        judged["blame"].append("weights")
        where = "on both sides" if len(rows) == 2 else "on this side" if rows == [0] else "there"
        told.append(f"the checkpoints give other scores {where}: the weights differ")
    judged["why"] = "; ".join(told) or _agree(cells, there)
    return judged


def _filled(here: Side, there: Side | None) -> dict[str, Any] | None:
    """Return the other side, a recorded run put in the row of the checkpoint that it evaluated."""
    if there is None:
        return None
    filled = dict(there)
    recorded = filled.pop("recorded", None)
    if recorded is None:
        return filled
    cells = here["cells"]
    row = next((n for n in "AB" if cells[n]["weights"] == recorded["weights"]), None)
    if row is not None:
        same = recorded["outputs"] == cells[row]["outputs"]
        answers = recorded["answers"] and recorded["answers"] == cells[row]["answers"]
        # A record holds no score; equal answers are an equal score.
        scores = cells[row]["scores"] if same or answers else {"score": float("nan")}
        filled["cells"] = {row: {**recorded, "scores": scores}}
    else:
        filled["unplaced"] = True
    return filled


def _missing(there: Side | None) -> list[tuple[str, str]]:
    if there is None:
        return []
    if there.get("unplaced"):
        return [("there", "the recorded run evaluated other weights than A's and B's")]
    return [(f"{n} there", "it is not on record there") for n in "AB" if n not in there["cells"]]


def _cell(side: Side | None, name: str) -> Cell | None:
    return None if side is None else side["cells"].get(name)


def _differ(one: Cell | None, other: Cell | None) -> bool:
    return one is not None and other is not None and not is_equal(one["scores"], other["scores"])


def _one_apart(cells: list[list[Cell | None]]) -> bool:
    """Whether one cell alone stands apart, the other three being equal."""
    (a, b), (c, d) = cells
    return any(
        not _differ(*rest[:2]) and not _differ(*rest[1:]) and all(rest)
        for rest in ((b, c, d), (a, c, d), (a, b, d), (a, b, c))
    )


def _between(here: Side, there: Side, names: list[str]) -> tuple[str, str, dict[str, Any]]:
    """Say what differs between the sides for the same checkpoints: the first link of the chain."""
    of = " and ".join(names)
    give = "give" if len(names) > 1 else "gives"
    start = f"{of} {give} other scores on the two sides"
    files = [n for n in names if _apart(here["files"].get(n), there["files"].get(n))]
    if files:
        return "file", f"{start}: the file of {' and '.join(files)} is another one there", {}
    pairs = [(here["cells"][n], there["cells"][n]) for n in names]
    if any(_apart(one["weights"], other["weights"]) for one, other in pairs):
        why = "equal files, and other weights in the model: damaged or changed as they were loaded"
        return "weights", f"{start}: {why}", {}
    modes = [(one["mode"], other["mode"]) for one, other in pairs]
    if any(_apart(*pair) for pair in modes):
        told = f"the model is in other modes ({modes[0][0]} here, {modes[0][1]} there)"
        return "evaluation", f"{start}: {told}", {"modes": list(modes[0])}
    if any(_apart(one["inputs"], other["inputs"]) for one, other in pairs):
        return "data", f"{start}: equal weights, and the model was given other inputs", {}
    if _apart(here["code"], there["code"]):
        return "evaluation", f"{start}: the evaluation's file is another one there", {}
    if all(one["outputs"] and one["outputs"] == other["outputs"] for one, other in pairs):
        return "evaluation", f"{start}, from equal outputs: what is counted, and how, differs", {}
    entries = [
        each.entry for each in compare_environments(here["environment"], there["environment"])
    ]
    told = f"environments differ in {len(entries)} entries" if entries else "equal environments"
    return (
        "environment",
        f"{start}: equal weights and inputs, other outputs; {told}",
        {"environment": entries[:16]},
    )


def _apart(one: Any, other: Any) -> bool:
    return bool(one) and bool(other) and one != other


def _agree(cells: list[list[Cell | None]], there: Side | None) -> str:
    if there is None:
        return "both checkpoints give the same scores here"
    outputs = {cell["outputs"] for row in cells for cell in row if cell is not None}
    bits = "" if len(outputs) == 1 else "; their outputs differ in bits that change no score"
    return f"all evaluations give the same scores{bits}"

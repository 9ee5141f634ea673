"""The runs of a matrix as a table, and the answer in a sentence: does it repeat, where not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from everybit.report.place import describe_place
from everybit.report.safe_text import printable
from everybit.report.stats import format_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.core.verdict import Verdict

_HEAD: Final = ("torch", "threads", "run", "time", "against the first", "against its own first")


def render_matrix(verdict: Verdict) -> str:
    """Return the table, and a line a setting that says whether it repeats.

    Args:
        verdict: Of `matrix`.
    """
    told = verdict.stats["matrix"]
    runs, comparisons = told["runs"], told["comparisons"]
    pairs = {(each["b"], each["a"]): each for each in comparisons}
    # The one that all others are held against, since the first may have ended badly.
    first = next((each["a"] for each in comparisons), "")
    own = _own_firsts(runs)
    rows = [_HEAD]
    for run in runs:
        name, mine = run["name"], own[run["torch"], run["threads"]]
        rows.append(
            (
                run["torch"] if run["guarded"] else f"{run['torch']} (unguarded)",
                "as it is" if run["threads"] is None else str(run["threads"]),
                str(run["repeat"]),
                _time(run),
                "(the first)" if name == first else _answer(pairs.get((name, first))),
                "" if mine in (first, name) else _answer(pairs.get((name, mine))),
            )
        )
    shown = [[printable(cell, 60) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in shown) for column in range(len(_HEAD))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in shown
    ]
    return "\n".join([*lines, "", *_sentences(runs, pairs, own)]) + "\n"


def _own_firsts(runs: list[Mapping[str, Any]]) -> dict[tuple[str, int | None], str]:
    """Return the first run of each setting that ended well."""
    found: dict[tuple[str, int | None], str] = {}
    for run in runs:
        key = run["torch"], run["threads"]
        if run["exit_code"] == 0:
            found.setdefault(key, run["name"])
    return {**{(run["torch"], run["threads"]): "" for run in runs}, **found}


def _time(run: Mapping[str, Any]) -> str:
    if run["exit_code"] is None:
        return "not run"
    return format_seconds(run["seconds"]) if run["exit_code"] == 0 else f"exit {run['exit_code']}"


def _answer(comparison: Mapping[str, Any] | None) -> str:
    if comparison is None:
        return ""
    if comparison["answer"] != "parts":
        return "equal" if comparison["answer"] == "same" else "not to be told"
    from everybit.core.finding import Location

    where = {key: value for key, value in (comparison["where"] or {}).items() if key != "run"}
    place = describe_place(Location.from_json(where)) if where else ""
    kind = f", {comparison['kind']}" if comparison["kind"] else ""
    return f"parts: {place}{kind}" if place else f"parts{kind}"


def _sentences(
    runs: list[Mapping[str, Any]],
    pairs: Mapping[tuple[str, str], Mapping[str, Any]],
    own: Mapping[tuple[str, int | None], str],
) -> list[str]:
    lines = []
    for (torch, threads), first in own.items():
        name = f"torch {torch}" + ("" if threads is None else f", {threads} threads")
        repeats = [
            run["name"]
            for run in runs
            if (run["torch"], run["threads"]) == (torch, threads) and run["name"] != first
        ]
        answers = [pairs[each, first]["answer"] for each in repeats if (each, first) in pairs]
        if not first:
            told = "not run to its end"
        elif not answers:
            told = "run once: whether it repeats is not known"
        elif "parts" in answers:
            told = "does NOT repeat"
        elif "unknown" in answers or len(answers) < len(repeats):
            told = "could not be told to repeat"
        else:
            told = f"repeats ({len(answers) + 1} runs)"
        lines.append(f"{printable(name)}: {told}")
    return lines

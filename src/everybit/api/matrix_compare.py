"""Two runs of a matrix side by side: what is on record, what they printed, what they wrote."""

from __future__ import annotations

import filecmp
import json
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from everybit.core.errors import EverybitError
from everybit.core.finding import Location

if TYPE_CHECKING:
    from everybit.api.matrix_cell import Cell, Result
    from everybit.core.verdict import Verdict

#: Files whose tensors are compared; others may hold times and places.
_MODELS: Final = frozenset({".bin", ".ckpt", ".npy", ".npz", ".pt", ".pth", ".safetensors"})
_MAX_LINE: Final = 100


class Answer(StrEnum):
    """What a comparison says."""

    SAME = "same"
    PARTS = "parts"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One run against another.

    Attributes:
        a: Name of the run that it is held against.
        b: Name of the run.
        answer: Equal, parting, or not to be told.
        by: What was compared: `values on record`, or `output and files`.
        where: The first value that parts, or the file.
        kind: Its kind, as `diff` tells it; "" for files and output.
        why: One sentence.
        beside: What differs and decides nothing: printed lines, logs.
        explained_by: Differences of environment, code and configuration, the gravest first.
    """

    a: str
    b: str
    answer: Answer
    by: str
    why: str
    where: Location | None = None
    kind: str = ""
    beside: tuple[str, ...] = ()
    explained_by: tuple[dict[str, Any], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the form of the verdict's `stats.comparisons`."""
        return {
            "a": self.a,
            "b": self.b,
            "answer": str(self.answer),
            "by": self.by,
            "where": self.where.to_json() if self.where else None,
            "kind": self.kind,
            "why": self.why,
            "beside": list(self.beside),
            "explained_by": [dict(item) for item in self.explained_by],
        }


def compare_cells(a: tuple[Cell, Result], b: tuple[Cell, Result], out: Path) -> Comparison:
    """Hold run `b` against run `a`.

    Values on record decide where both have steps on record. Otherwise printed lines and written
    files do: model files by their tensors.

    Args:
        a: A run that ended well.
        b: Another.
        out: The folder of the matrix.
    """
    (cell_a, result_a), (cell_b, result_b) = a, b
    places = out / cell_a.name, out / cell_b.name
    files, other = _files(result_a, result_b, *places)
    printed = _printed(*places)
    beside = tuple(other) + ((printed,) if printed else ())
    if cell_a.guarded and cell_b.guarded and not _without_steps(*places):
        recorded = _recorded(cell_a.name, cell_b.name, *places)
        if recorded.answer is Answer.SAME and files:
            # Equal up to the last step on record: what followed it differs.
            return replace(_of_files(cell_a.name, cell_b.name, files), beside=beside)
        return replace(recorded, beside=(*(why for _, why in files), *beside))
    if files:
        return replace(_of_files(cell_a.name, cell_b.name, files), beside=beside)
    names: dict[str, Any] = {"a": cell_a.name, "b": cell_b.name, "by": "output and files"}
    if printed:
        where = Location(run=cell_b.name, path="stdout.txt")
        return Comparison(
            **names, answer=Answer.PARTS, where=where, why=printed, beside=tuple(other)
        )
    nothing = not result_a.written and not (places[0] / "stdout.txt").stat().st_size
    return Comparison(
        **names,
        answer=Answer.UNKNOWN if nothing else Answer.SAME,
        why="it prints and writes nothing" if nothing else "printed lines and files are equal",
        beside=tuple(other),
    )


def _without_steps(*places: Path) -> bool:
    """Whether neither run has a step or call on record: a program that trains and asks nothing."""
    try:
        told = [json.loads((place / "run" / "verdict.json").read_bytes()) for place in places]
        return all(each["stats"].get("steps") == 0 for each in told)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return False


def _recorded(a: str, b: str, *places: Path) -> Comparison:
    from everybit.api.diff import diff

    names: dict[str, Any] = {"a": a, "b": b, "by": "values on record"}
    try:
        verdict: Verdict = diff(*(place / "run" for place in places))
    except EverybitError as error:
        return Comparison(**names, answer=Answer.UNKNOWN, why=error.line())
    explained = tuple(dict(item) for item in verdict.explained_by)
    if verdict.first is not None:
        where = replace(verdict.first.where, run=b)
        return Comparison(
            **names,
            answer=Answer.PARTS,
            where=where,
            kind=str(verdict.first.kind),
            why=verdict.first.why,
            explained_by=explained,
        )
    missed = [item for item in verdict.coverage.skipped if item.promised and _of_values(item.what)]
    if missed:
        why = f"{missed[0].what}: {missed[0].why}"
        return Comparison(**names, answer=Answer.UNKNOWN, why=why, explained_by=explained)
    return Comparison(
        **names, answer=Answer.SAME, why="every value on record is equal", explained_by=explained
    )


def _of_values(what: str) -> bool:
    # That a part of the environment could not be read says nothing about values.
    return not what.startswith("environment")


def _files(
    result_a: Result, result_b: Result, place_a: Path, place_b: Path
) -> tuple[list[tuple[str, str]], list[str]]:
    """Return model files that differ, as `(name, why)`, and what else differs, as text."""
    models: list[tuple[str, str]] = []
    other: list[str] = []
    for name in sorted({*result_a.written, *result_b.written}):
        sides = place_a / "written" / name, place_b / "written" / name
        is_model = Path(name).suffix in _MODELS
        if name not in result_a.written or name not in result_b.written:
            lacks = "the first" if name not in result_a.written else "the second"
            why = f"{name}: {lacks} wrote no such file"
            if is_model:
                models.append((name, why))
            else:
                other.append(why)
        elif not filecmp.cmp(*sides, shallow=False):
            if not is_model:
                other.append(f"{name}: other bytes")
            elif why := _tensors(name, *sides):
                models.append((name, why))
    return models, other


def _tensors(name: str, a: Path, b: Path) -> str:
    from everybit.api.diff import diff

    try:
        verdict = diff(a, b)
    except EverybitError:
        return f"{name}: other bytes, and no tensors that can be compared"
    if not verdict.findings:
        return ""
    headline = (verdict.comparison or {}).get("headline")
    return f"{name}: {headline or verdict.findings[0].message}"


def _of_files(a: str, b: str, files: list[tuple[str, str]]) -> Comparison:
    name, why = files[0]
    return Comparison(
        a=a,
        b=b,
        answer=Answer.PARTS,
        by="output and files",
        where=Location(run=b, path=name),
        why=why,
    )


def _printed(place_a: Path, place_b: Path) -> str:
    """Return the first line of stdout that differs, as a sentence; "" where none does."""
    sides = [
        (place / "stdout.txt").read_text(encoding="utf-8", errors="replace").splitlines()
        for place in (place_a, place_b)
    ]
    for number in range(max(map(len, sides))):
        lines = [side[number] if number < len(side) else "(nothing)" for side in sides]
        if lines[0] != lines[1]:
            shown = " and ".join(repr(line[:_MAX_LINE]) for line in lines)
            return f"line {number + 1} of what they print: {shown}"
    return ""

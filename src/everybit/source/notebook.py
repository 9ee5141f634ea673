"""Read the code cells of a notebook as one text, magics blanked, every line traceable."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from everybit.source.reading import CellLine, Refused, SourceFile, lines_of, parse

_MAX_CELLS: Final = 20_000
#: Cell magics after which the rest of the cell is Python that runs here.
_PYTHON_MAGICS: Final = frozenset(
    {"time", "timeit", "capture", "prun", "python", "python3", "pypy", "memit", "debug", "mprun"}
)
_CELL_MAGIC: Final = re.compile(r"\s*%%(\w+)")
_LINE_MAGIC: Final = re.compile(r"(\s*)(?:%[\w.]|!|\?)")
#: `%time statement`: what these magics run is Python that runs here, behind their options.
_RUNNING: Final = re.compile(
    r"(\s*)%(?:time|timeit|prun|memit|mprun|lprun)\b((?:[ \t]+-\w+(?:[ \t]+\d+)?)*[ \t]+)(?=[^-\s])"
)
_HELP: Final = re.compile(r"^\s*[\w.%]+\?\??\s*$")
_ASSIGNED: Final = re.compile(r"^(\s*[\w., ()\[\]'\"]*=\s*)(?:!|%[A-Za-z])")


def read_notebook(text: str) -> SourceFile | Refused:
    """Return the code cells of a notebook, joined in order.

    A cell that is no Python is blanked and told; the others are read all the same.
    """
    cells = _code_cells(text)
    if isinstance(cells, Refused):
        return cells
    blanked = [_blank(cell) for cell in cells]
    unread: list[tuple[str, str]] = []
    tree = parse(_joined([lines for lines, _ in blanked]))
    if isinstance(tree, Refused):
        for number, (lines, _) in enumerate(blanked):
            alone = parse("\n".join(lines) + "\n")
            if isinstance(alone, Refused):
                unread.append((f"cell {number + 1}", alone.why))
                blanked[number] = ([""] * len(lines), blanked[number][1])
        tree = parse(_joined([lines for lines, _ in blanked]))
        if isinstance(tree, Refused):
            return tree
    places = [
        CellLine(cell=number, line=line)
        for number, (lines, _) in enumerate(blanked, start=1)
        for line in range(1, len(lines) + 1)
    ]
    magics: list[tuple[int, str]] = []
    before = 0
    for lines, found in blanked:
        magics += [(before + line, each) for line, each in found]
        before += len(lines)
    return SourceFile(
        text=_joined([lines for lines, _ in blanked]),
        tree=tree,
        cells=tuple(places),
        magics=tuple(magics),
        unread=tuple(unread),
    )


def _joined(cells: list[list[str]]) -> str:
    return "".join(f"{line}\n" for lines in cells for line in lines)


def _code_cells(text: str) -> list[list[str]] | Refused:
    try:
        document: Any = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        return Refused(f"no notebook: not JSON ({' '.join(str(error).split())[:120]})")
    cells = code_cells(document)
    if isinstance(cells, Refused):
        return cells
    found: list[list[str]] = []
    for cell in cells:
        source = source_of(cell)
        if source is None:
            return Refused("no notebook: the source of a cell is no text")
        found.append(lines_of(source))
    return found


def code_cells(document: Any) -> list[dict[str, Any]] | Refused:
    """Return the code cells of a notebook's JSON, in order."""
    if not isinstance(document, dict):
        return Refused("no notebook: the JSON is not an object")
    cells = document.get("cells")
    if cells is None:  # the form before version 4
        sheets = document.get("worksheets")
        sheets = sheets if isinstance(sheets, list) else []
        cells = [
            cell
            for sheet in sheets
            if isinstance(sheet, dict) and isinstance(sheet.get("cells"), list)
            for cell in sheet["cells"]
        ]
        if not sheets:
            return Refused("no notebook: it holds no cells")
    if not isinstance(cells, list) or len(cells) > _MAX_CELLS:
        return Refused("no notebook: its cells cannot be read")
    return [cell for cell in cells if isinstance(cell, dict) and cell.get("cell_type") == "code"]


def source_of(cell: dict[str, Any]) -> str | None:
    """Return the source of a code cell; None where it is no text."""
    source = cell.get("source", cell.get("input", ""))
    if isinstance(source, list):
        return "".join(part for part in source if isinstance(part, str))
    return source if isinstance(source, str) else None


def _blank(lines: list[str], mark: str = "") -> tuple[list[str], list[tuple[int, str]]]:
    """Return a cell's lines without magics, and the magics with their line in the cell.

    Args:
        lines: The cell.
        mark: Put behind what stands for a magic, with its line, to find it again.
    """
    first = next((index for index, line in enumerate(lines) if line.strip()), 0)
    magic = _CELL_MAGIC.match(lines[first]) if lines else None
    if magic and magic[1] not in _PYTHON_MAGICS:
        return [""] * len(lines), [(n, line) for n, line in enumerate(lines, start=1) if line]
    kept: list[str] = []
    taken: list[tuple[int, str]] = []
    goes_on = False
    for number, line in enumerate(lines, start=1):
        run = None if goes_on else _run_by(line)
        if run is not None:
            kept.append(f"{run}  #{mark}{number}#" if mark else run)
            taken.append((number, line))
            continue
        is_magic = goes_on or _CELL_MAGIC.match(line) or _LINE_MAGIC.match(line)
        assigned = _ASSIGNED.match(line)
        behind = f"  #{mark}{number}#" if mark else ""
        if is_magic or _HELP.match(line):
            indent = "" if goes_on else line[: len(line) - len(line.lstrip())]
            # A block that held only a magic must not be empty.
            stands = f"{indent}pass" if indent and line.strip() else ""
            kept.append(f"{stands}{behind}")
            taken.append((number, line))
            goes_on = line.rstrip().endswith("\\")
        elif assigned:
            kept.append(f"{assigned[1]}None{behind}")
            taken.append((number, line))
        else:
            kept.append(line)
    return kept, taken


def _run_by(line: str) -> str | None:
    """Return a line whose magic runs the statement behind it, as a line of Python.

    Each letter of the statement stays at its place.
    """
    magic = _RUNNING.match(line)
    if magic is None:
        return None
    statement = line[magic.end() :]
    if isinstance(parse(f"if 1: {statement}"), Refused):
        return None  # it goes on, or is no statement that stands behind a colon
    head = f"{magic[1]}if 1:"
    return head + " " * (magic.end() - len(head)) + statement


def marked_cell(source: str, mark: str) -> tuple[str, dict[str, str]]:
    """Return a cell's text with a comment in place of each magic, and what each stands for."""
    kept, taken = _blank(lines_of(source), mark)
    return "\n".join(kept), {f"#{mark}{number}#": line for number, line in taken}

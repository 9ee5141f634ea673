"""Carry out fixes in the cells of a notebook; all around them keeps its form to the byte."""

from __future__ import annotations

import ast
import json
import re
from typing import TYPE_CHECKING, Any, Final

from everybit.source.fixing import apply_fixes
from everybit.source.notebook import code_cells, marked_cell, source_of
from everybit.source.reading import Refused
from everybit.source.same_code import node_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from everybit.source.hit import Fix
    from everybit.source.reading import SourceFile

_MARK: Final = "everybit-magic-"


def fix_notebook(text: str, file: SourceFile, fixes: Sequence[Fix]) -> str | None:
    """Return a notebook with fixes made; None where it could not be written in its own form.

    Args:
        text: The JSON.
        file: What was read of it.
        fixes: Fixes of places in the joined cells.
    """
    document = json.loads(text)
    code = code_cells(document)
    form = _form_of(text, document)
    by_cell = _by_cell(file, fixes)
    if form is None or by_cell is None or isinstance(code, Refused):
        return None
    for number, wanted in by_cell.items():
        cell = code[number - 1]
        key = "source" if "source" in cell else "input"
        source, again = source_of(cell), _held_as(cell.get(key))
        after = _fixed_cell(source, wanted) if source is not None and again is not None else None
        if after is None or again is None:
            return None
        cell[key] = again(after)
    return json.dumps(document, **form) + text[len(text.rstrip("\n")) :]


def _form_of(text: str, document: Any) -> dict[str, Any] | None:
    """Return how the JSON was written, None where that cannot be repeated exactly."""
    for ascii_only in (False, True):
        for indent in (1, 2, 4, None):
            form: dict[str, Any] = {"indent": indent, "ensure_ascii": ascii_only}
            if json.dumps(document, **form) == text.rstrip("\n"):
                return form
    return None


def _held_as(held: Any) -> Callable[[str], Any] | None:
    """Return what puts a source into the form that one is held in: whole, or in lines.

    Jupyter's own writer ends lines at a form feed as well, others at newlines only. None for a
    list that neither has written.
    """
    if isinstance(held, str):
        return str
    if not isinstance(held, list) or not all(isinstance(part, str) for part in held):
        return None
    ways: tuple[Callable[[str], list[str]], ...] = (
        lambda text: text.splitlines(keepends=True),
        lambda text: re.findall(r"[^\n]*\n|[^\n]+", text),
    )
    return next((way for way in ways if way("".join(held)) == held), None)


def _by_cell(file: SourceFile, fixes: Sequence[Fix]) -> dict[int, list[tuple[int, Fix]]] | None:
    """Return the fixes of each cell, with the lines before it; None where one crosses cells."""
    assert file.cells is not None
    found: dict[int, list[tuple[int, Fix]]] = {}
    for fix in fixes:
        cells = set()
        before = 0
        for edit in fix.edits:
            node: Any = node_of(edit)
            line = node.lineno
            place = file.cells[line - 1]
            cells.add(place.cell)
            before = line - place.line
        if len(cells) != 1 or fix.imports:
            return None
        found.setdefault(cells.pop(), []).append((before, fix))
    return found


def _fixed_cell(source: str, wanted: Sequence[tuple[int, Fix]]) -> str | None:
    if _MARK in source or "\r" in source:  # lines are put together with newlines
        return None
    text, magics = marked_cell(source, _MARK)
    for before, fix in wanted:
        for edit in fix.edits:
            ast.increment_lineno(node_of(edit), -before)
    after = apply_fixes(text, [fix for _, fix in wanted])
    for before, fix in wanted:
        for edit in fix.edits:
            ast.increment_lineno(node_of(edit), before)
    if after is None:
        return None
    lines = []
    for line in after.split("\n"):
        mark = next((mark for mark in magics if line.endswith(mark)), None)
        lines.append(magics[mark] if mark is not None else line)
    return "\n".join(lines)

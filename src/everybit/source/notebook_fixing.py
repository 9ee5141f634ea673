"""Carry out fixes in the cells of a notebook; all around them keeps its form to the byte."""

from __future__ import annotations

import ast
import json
from typing import TYPE_CHECKING, Any, Final

from everybit.source.fixing import apply_fixes
from everybit.source.hit import InsertBefore, InsertFirst, ReplaceExpression, SetArgument
from everybit.source.notebook import marked_cell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.source.hit import Edit, Fix
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
    form = _form_of(text, document)
    by_cell = _by_cell(file, fixes)
    if form is None or by_cell is None:
        return None
    code = [cell for cell in document.get("cells", ()) if cell.get("cell_type") == "code"]
    for number, wanted in by_cell.items():
        cell = code[number - 1]
        source = cell["source"]
        joined = source if isinstance(source, str) else "".join(source)
        after = _fixed_cell(joined, wanted)
        if after is None:
            return None
        cell["source"] = after if isinstance(source, str) else after.splitlines(keepends=True)
    return json.dumps(document, **form) + text[len(text.rstrip("\n")) :]


def _form_of(text: str, document: Any) -> dict[str, Any] | None:
    """Return how the JSON was written, None where that cannot be repeated exactly."""
    for ascii_only in (False, True):
        for indent in (1, 2, 4, None):
            form: dict[str, Any] = {"indent": indent, "ensure_ascii": ascii_only}
            if json.dumps(document, **form) == text.rstrip("\n"):
                return form
    return None


def _by_cell(file: SourceFile, fixes: Sequence[Fix]) -> dict[int, list[tuple[int, Fix]]] | None:
    """Return the fixes of each cell, with the lines before it; None where one crosses cells."""
    assert file.cells is not None
    found: dict[int, list[tuple[int, Fix]]] = {}
    for fix in fixes:
        cells = set()
        before = 0
        for edit in fix.edits:
            line = _node(edit).lineno
            place = file.cells[line - 1]
            cells.add(place.cell)
            before = line - place.line
        if len(cells) != 1 or fix.imports:
            return None
        found.setdefault(cells.pop(), []).append((before, fix))
    return found


def _node(edit: Edit) -> Any:
    match edit:
        case SetArgument():
            return edit.call
        case ReplaceExpression():
            return edit.node
        case InsertBefore():
            return edit.statement
        case InsertFirst():
            return edit.block


def _fixed_cell(source: str, wanted: Sequence[tuple[int, Fix]]) -> str | None:
    if _MARK in source:
        return None
    text, magics = marked_cell(source, _MARK)
    for before, fix in wanted:
        for edit in fix.edits:
            ast.increment_lineno(_node(edit), -before)
    after = apply_fixes(text, [fix for _, fix in wanted])
    for before, fix in wanted:
        for edit in fix.edits:
            ast.increment_lineno(_node(edit), before)
    if after is None:
        return None
    lines = []
    for line in after.split("\n"):
        mark = next((mark for mark in magics if line.endswith(mark)), None)
        lines.append(magics[mark] if mark is not None else line)
    return "\n".join(lines)

"""Carry out fixes in a file's text, everything else left as it is to the last blank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everybit.core.errors import UsageError
from everybit.source.hit import SetArgument
from everybit.source.reading import lines_of
from everybit.source.same_code import differs_by, node_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.source.hit import Edit, Fix

#: `(first line, first column, last line, end column)`, lines from 1, columns in characters from 0.
Span = tuple[int, int, int, int]


def require_libcst() -> None:
    """Raise `UsageError` where the library is missing that rewrites source."""
    try:
        import libcst  # noqa: F401
    except ImportError:
        raise UsageError(
            "fixing source needs libcst", todo="install it: pip install 'everybit[lint]'"
        ) from None


def apply_fixes(text: str, fixes: Sequence[Fix]) -> str | None:
    """Return the text with fixes carried out; None where one cannot be placed exactly.

    The new text is proved to be the old one but for these fixes, by its syntax tree and comments.

    Args:
        text: Python source that parses.
        fixes: Fixes of places in this text.
    """
    import libcst as cst

    from everybit.source.rewriting import BLANKS, rewrite

    lines = lines_of(text)
    wanted: dict[Span, list[Edit]] = {}
    for fix in fixes:
        if not all(map(_is_certain, fix.edits)):
            return None
        for edit in fix.edits:
            wanted.setdefault(_span(edit, lines), []).append(edit)
    imports = tuple(dict.fromkeys(name for fix in fixes for name in fix.imports))
    try:
        changed = rewrite(text, wanted, imports)
    except (cst.ParserSyntaxError, RecursionError):
        return None
    if changed is None or changed == text:
        return None
    # The library drops blanks at the end, and a line end of the old Macintosh.
    changed = changed.rstrip(BLANKS) + text[len(text.rstrip(BLANKS)) :]
    edits = [edit for fix in fixes for edit in fix.edits]
    return changed if differs_by(text, changed, edits, imports) else None


def _is_certain(edit: Edit) -> bool:
    """Whether an edit leaves a call that Python can make: `**` may give the keyword as well."""
    if not isinstance(edit, SetArgument):
        return True
    names = [keyword.arg for keyword in edit.call.keywords]
    return edit.name in names or None not in names


def _span(edit: Edit, lines: Sequence[str]) -> Span:
    node: Any = node_of(edit)
    return (
        node.lineno,
        _characters(lines, node.lineno, node.col_offset),
        node.end_lineno,
        _characters(lines, node.end_lineno, node.end_col_offset),
    )


def _characters(lines: Sequence[str], line: int, offset: int) -> int:
    """Return a column in characters of one in bytes of UTF-8."""
    return len(lines[line - 1].encode("utf-8", "replace")[:offset].decode("utf-8", "ignore"))

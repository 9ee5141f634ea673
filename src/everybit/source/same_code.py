"""Prove that a fixed text is the old one with its fixes made, and no other code in it."""

from __future__ import annotations

import ast
import io
import tokenize
from typing import TYPE_CHECKING, Any

from everybit.source.hit import InsertBefore, InsertFirst, ReplaceExpression, SetArgument

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from everybit.source.hit import Edit

_Place = tuple[type, int, int, int | None, int | None]


def differs_by(before: str, after: str, edits: Iterable[Edit], imports: Sequence[str]) -> bool:
    """Return whether the new text means the old one with these edits made, comments kept.

    The edits are made in the old syntax tree, and the result must be the new text's own tree. A
    text that cannot be parsed, or is nested too deeply to be compared, is not proved.

    Args:
        before: Source that parses; the edits name places in it.
        after: What was made of it.
        edits: What was to be done.
        imports: Modules that are imported where they were not.
    """
    try:
        old, new = ast.parse(before), ast.parse(after)
        for name in imports:
            there = _imports_of(new, name)
            if len(there) > len(_imports_of(old, name)):
                new.body.remove(there[0])
        expected = _Made(edits).visit(old)
        return ast.dump(expected) == ast.dump(new) and _comments(before) == _comments(after)
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError):
        return False


def node_of(edit: Edit) -> ast.AST:
    """Return the node whose place an edit is at."""
    match edit:
        case SetArgument():
            return edit.call
        case ReplaceExpression():
            return edit.node
        case InsertBefore():
            return edit.statement
        case InsertFirst():
            return edit.block


def _place(node: Any) -> _Place:
    return type(node), node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def _imports_of(tree: ast.Module, name: str) -> list[ast.stmt]:
    wanted = ast.dump(ast.Import(names=[ast.alias(name=name)]))
    return [statement for statement in tree.body if ast.dump(statement) == wanted]


def _comments(text: str) -> list[str]:
    lines = io.StringIO(text, newline=None).readline
    return [
        token.string.rstrip()
        for token in tokenize.generate_tokens(lines)
        if token.type == tokenize.COMMENT
    ]


class _Made(ast.NodeTransformer):
    """Makes edits in a syntax tree."""

    def __init__(self, edits: Iterable[Edit]) -> None:
        self._edits: dict[_Place, list[Edit]] = {}
        for edit in edits:
            self._edits.setdefault(_place(node_of(edit)), []).append(edit)

    def generic_visit(self, node: Any) -> Any:
        """Make the edits of what is inside, then its own."""
        edits = self._edits.get(_place(node), ()) if hasattr(node, "lineno") else ()
        made: Any = super().generic_visit(node)
        above: list[ast.stmt] = []
        for edit in edits:
            match edit:
                case SetArgument():
                    _set_argument(made, edit)
                case ReplaceExpression():
                    made = ast.parse(edit.text, mode="eval").body
                case InsertBefore():
                    above += ast.parse(edit.text).body
                case InsertFirst():
                    made.body[:0] = ast.parse(edit.text).body
        return [*above, made] if above else made


def _set_argument(call: ast.Call, edit: SetArgument) -> None:
    value = ast.parse(edit.value, mode="eval").body
    for keyword in call.keywords:
        if keyword.arg == edit.name:
            keyword.value = value
            return
    place = len(call.keywords)  # before `**`
    while place and call.keywords[place - 1].arg is None:
        place -= 1
    call.keywords.insert(place, ast.keyword(arg=edit.name, value=value))

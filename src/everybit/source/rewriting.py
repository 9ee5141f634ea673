"""The transformer that puts edits into a concrete syntax tree. Imports libcst: load it late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from everybit.source.hit import InsertBefore, InsertFirst, ReplaceExpression, SetArgument

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.source.fixing import Span
    from everybit.source.hit import Edit


#: What the library does not always give back at the end of a text.
BLANKS: Final = " \t\r\n\f"


def rewrite(text: str, wanted: Mapping[Span, Sequence[Edit]], imports: Sequence[str]) -> str | None:
    """Return the text with every edit made; None where a place was not found exactly once.

    Args:
        text: Python source.
        wanted: Edits by the place of their node.
        imports: Modules to import where they are not yet.
    """
    module = cst.parse_module(text)
    if module.code.rstrip(BLANKS) != text.rstrip(BLANKS):
        return None  # what it gives back is not what it was given
    wrapper = MetadataWrapper(module)
    editor = _Editor(wanted)
    tree = wrapper.visit(editor)
    if editor.done != sorted(range(editor.num_edits)):
        return None
    for name in imports:
        tree = _with_import(tree, name)
    return tree.code


class _Editor(cst.CSTTransformer):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, wanted: Mapping[Span, Sequence[Edit]]) -> None:
        super().__init__()
        self._wanted: dict[Span, list[tuple[int, Edit]]] = {}
        self.num_edits = 0
        self._done: set[int] = set()
        for span, edits in wanted.items():
            for edit in edits:
                self._wanted.setdefault(span, []).append((self.num_edits, edit))
                self.num_edits += 1

    @property
    def done(self) -> list[int]:
        """The edits that were made."""
        return sorted(self._done)

    def _at(self, node: cst.CSTNode) -> list[tuple[int, Edit]]:
        place = self.get_metadata(PositionProvider, node)
        span = (place.start.line, place.start.column, place.end.line, place.end.column)
        return [each for each in self._wanted.get(span, ()) if each[0] not in self._done]

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        """Make the edits whose place this node is."""
        new = super().on_leave(original_node, updated_node)
        if isinstance(original_node, cst.BaseExpression):
            return self._expression(original_node, new)
        if isinstance(original_node, cst.For | cst.While):
            new = self._first(original_node, new)
        if isinstance(original_node, cst.SimpleStatementLine | cst.BaseCompoundStatement):
            return self._before(original_node, new)
        return new

    def _expression(self, original: cst.BaseExpression, new: Any) -> Any:
        for number, edit in self._at(original):
            match edit:
                case SetArgument() if isinstance(new, cst.Call):
                    new = set_argument(new, edit.name, edit.value)
                    self._done.add(number)
                case ReplaceExpression():
                    new = cst.parse_expression(edit.text).with_changes(
                        lpar=getattr(new, "lpar", ()), rpar=getattr(new, "rpar", ())
                    )
                    self._done.add(number)
                case _:
                    pass
        return new

    def _first(self, original: cst.For | cst.While, new: Any) -> Any:
        for number, edit in self._at(original):
            if isinstance(edit, InsertFirst) and isinstance(new.body, cst.IndentedBlock):
                block = new.body
                body = [_statement(edit.text), *block.body]
                new = new.with_changes(body=block.with_changes(body=body))
                self._done.add(number)
        return new

    def _before(
        self, original: cst.SimpleStatementLine | cst.BaseCompoundStatement, new: Any
    ) -> Any:
        found = []
        places = [original]
        if isinstance(original, cst.SimpleStatementLine):
            places += list(original.body)  # type: ignore[arg-type]
        for place in places:
            for number, edit in self._at(place):
                if isinstance(edit, InsertBefore):
                    found.append(edit)
                    self._done.add(number)
        if not found:
            return new
        # Blank lines go above what is new; a comment stays with its statement.
        lines = list(new.leading_lines)
        num_blank = next((n for n, line in enumerate(lines) if line.comment), len(lines))
        first = _statement(found[0].text).with_changes(leading_lines=lines[:num_blank])
        rest = [_statement(edit.text) for edit in found[1:]]
        return cst.FlattenSentinel(
            [first, *rest, new.with_changes(leading_lines=lines[num_blank:])]
        )


def _statement(text: str) -> Any:
    return cst.parse_statement(text + "\n")


def set_argument(call: cst.Call, name: str, value: str) -> cst.Call:
    """Return a call with one keyword argument set, in the layout that the call has."""
    expression = cst.parse_expression(value)
    args = list(call.args)
    for place, arg in enumerate(args):
        if arg.keyword is not None and arg.keyword.value == name:
            args[place] = arg.with_changes(value=expression)
            return call.with_changes(args=args)
    new = cst.Arg(
        keyword=cst.Name(name),
        value=expression,
        equal=cst.AssignEqual(
            whitespace_before=cst.SimpleWhitespace(""), whitespace_after=cst.SimpleWhitespace("")
        ),
    )
    if not args:
        return call.with_changes(args=[new])
    # Before `**`: there Python takes a keyword as well, and the reader sees it.
    place = len(args)
    while place > 0 and args[place - 1].star == "**":
        place -= 1
    if place < len(args):
        new = new.with_changes(comma=_comma_of(args[place:]))
        return call.with_changes(args=[*args[:place], new, *args[place:]])
    last = args[-1]
    if isinstance(last.comma, cst.Comma):
        between, end = _commas_around(call, last.comma)
        new = new.with_changes(comma=end, whitespace_after_arg=last.whitespace_after_arg)
        args[-1] = last.with_changes(comma=between)
    else:
        new = new.with_changes(whitespace_after_arg=last.whitespace_after_arg)
        usual = args[-2].comma if len(args) > 1 else _plain_comma()
        args[-1] = last.with_changes(comma=usual, whitespace_after_arg=cst.SimpleWhitespace(""))
    return call.with_changes(args=[*args, new])


def _plain_comma() -> cst.Comma:
    return cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


def _comma_of(args: Sequence[cst.Arg]) -> Any:
    return args[0].comma if len(args) > 1 else _plain_comma()


def _commas_around(call: cst.Call, last: cst.Comma) -> tuple[cst.Comma, cst.Comma]:
    """Return the commas before and behind a new last argument, where one ended the call.

    A comment behind the old one stays on its line.
    """
    other = call.args[-2].comma if len(call.args) > 1 else None
    model = other.whitespace_after if isinstance(other, cst.Comma) else None
    if not isinstance(model, cst.ParenthesizedWhitespace):
        model = call.whitespace_before_args
    after = last.whitespace_after
    if not isinstance(after, cst.ParenthesizedWhitespace) or not isinstance(
        model, cst.ParenthesizedWhitespace
    ):
        return _plain_comma(), last
    line = after.first_line.with_changes(comment=None, whitespace=cst.SimpleWhitespace(""))
    return (
        last.with_changes(
            whitespace_after=after.with_changes(
                empty_lines=[], indent=model.indent, last_line=model.last_line
            )
        ),
        last.with_changes(whitespace_after=after.with_changes(first_line=line)),
    )


def _with_import(tree: cst.Module, name: str) -> cst.Module:
    """Return a module that imports `name`, below its docstring and `__future__` imports."""
    body = list(tree.body)
    place = 0
    for index, statement in enumerate(body):
        if not isinstance(statement, cst.SimpleStatementLine):
            break
        first = statement.body[0]
        is_docstring = index == 0 and isinstance(first, cst.Expr)
        is_future = (
            isinstance(first, cst.ImportFrom)
            and isinstance(first.module, cst.Name)
            and first.module.value == "__future__"
        )
        imported = isinstance(first, cst.Import) and any(
            isinstance(alias.name, cst.Name) and alias.name.value == name and alias.asname is None
            for alias in first.names
        )
        if imported:
            return tree
        if not (is_docstring or is_future):
            continue
        place = index + 1
    new = _statement(f"import {name}")
    if place:
        new = new.with_changes(leading_lines=[cst.EmptyLine(indent=False)])
    return tree.with_changes(body=[*body[:place], new, *body[place:]])

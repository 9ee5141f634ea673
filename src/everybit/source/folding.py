"""Constants put together: `or`, `not`, text that is added, f-strings."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from everybit.source.meaning import (
    UNKNOWNS,
    Constant,
    Literal,
    Meanings,
    joined,
    literal,
)

if TYPE_CHECKING:
    from everybit.source.resolving import Frame, Resolver


def either(resolver: Resolver, node: ast.BoolOp, frame: Frame | None) -> Meanings:
    """Return what `a or b` and `a and b` may be."""
    stops = isinstance(node.op, ast.Or)
    found: list[Meanings] = []
    for index, value in enumerate(node.values):
        each = resolver.meanings(value, frame)
        if index == len(node.values) - 1:
            found.append(each)
            break
        # `a or b` is `a` only where that is true; what is no constant may be either.
        kept = tuple(m for m in each if not isinstance(m, Literal) or bool(m.value) is stops)
        found.append(kept)
        if all(isinstance(m, Literal) and bool(m.value) is stops for m in each):
            break
    return joined(*found)


def unary(resolver: Resolver, node: ast.UnaryOp, frame: Frame | None) -> Meanings:
    """Return what `not a` and `-a` may be."""
    if isinstance(node.op, ast.Not):
        return truth(resolver, node.operand, frame, negate=True)
    if isinstance(node.op, ast.USub):
        return joined(
            *(
                (literal(-m.value),)
                if isinstance(m, Literal) and isinstance(m.value, int | float)
                else UNKNOWNS
                for m in resolver.meanings(node.operand, frame)
            )
        )
    return UNKNOWNS


def truth(resolver: Resolver, node: ast.expr, frame: Frame | None, *, negate: bool) -> Meanings:
    """Return whether something is true, or with `negate` whether it is not."""
    return joined(
        *(
            (literal(bool(m.value) is not negate),) if isinstance(m, Literal) else UNKNOWNS
            for m in resolver.meanings(node, frame)
        )
    )


def as_text(resolver: Resolver, node: ast.expr, frame: Frame | None) -> Meanings:
    """Return what `str(a)` may be."""
    return joined(
        *(
            (literal(str(m.value)),) if isinstance(m, Literal) else UNKNOWNS
            for m in resolver.meanings(node, frame)
        )
    )


def text(resolver: Resolver, node: ast.expr, frame: Frame | None) -> Meanings:
    """Return the text that constants are put together to."""
    parts: list[ast.expr] = []
    if isinstance(node, ast.JoinedStr):
        for value in node.values:
            if isinstance(value, ast.FormattedValue):
                if value.format_spec is not None or value.conversion != -1:
                    return UNKNOWNS
                parts.append(value.value)
            else:
                parts.append(value)
    elif isinstance(node, ast.BinOp):
        parts = [node.left, node.right]
    text = ""
    for part in parts:
        found = resolver.meanings(part, frame)
        if len(found) != 1 or not isinstance(found[0], Literal):
            return UNKNOWNS
        value_: Constant = found[0].value
        if not isinstance(value_, str) or len(text) > 10_000:
            return UNKNOWNS
        text += value_
    return (literal(text),)

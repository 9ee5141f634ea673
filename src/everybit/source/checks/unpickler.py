"""What a subclass of `pickle.Unpickler` does with a name that is on no list."""

from __future__ import annotations

import ast
from enum import StrEnum
from typing import Final

#: Calls that turn a name into the thing it names.
_OPENING: Final = frozenset(
    {"find_class", "getattr", "__import__", "import_module", "eval", "exec", "locate"}
)
_ALLOWING: Final = (ast.In, ast.Eq, ast.Is)
_FORBIDDING: Final = (ast.NotIn, ast.NotEq, ast.IsNot)
_LEAVING: Final = (ast.Raise, ast.Return, ast.Continue, ast.Break)


class Lets(StrEnum):
    """Which names get through."""

    LISTED = "listed"  # only those on a list, or none
    NOT_FORBIDDEN = "not forbidden"  # all but those on a list
    ALL = "all"


def judge_find_class(function: ast.FunctionDef) -> Lets:
    """Return which names a `find_class` lets through.

    A call that looks a name up counts as guarded where it stands inside `if name in LIST:`, or
    after `if name not in LIST: raise`.
    """
    parents = {child: node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}
    openings = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and _called(node) in _OPENING
    ]
    open_ones = [each for each in openings if not _guarded(each, function, parents)]
    if not open_ones:
        return Lets.LISTED
    refusals = any(isinstance(node, ast.Raise) for node in ast.walk(function))
    return Lets.NOT_FORBIDDEN if refusals else Lets.ALL


def _called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _guarded(node: ast.AST, function: ast.FunctionDef, parents: dict[ast.AST, ast.AST]) -> bool:
    child = node
    while child is not function:
        parent = parents[child]
        if isinstance(parent, ast.If | ast.IfExp):
            if _within(parent.body, child) and _allows(parent.test):
                return True
            if _within(parent.orelse, child) and _forbids(parent.test):
                return True
        if any(_refuses(earlier) for earlier in _earlier(parent, child)):
            return True
        child = parent
    return False


def _within(block: list[ast.stmt] | ast.expr, child: ast.AST) -> bool:
    return block is child or (isinstance(block, list) and any(each is child for each in block))


def _earlier(parent: ast.AST, child: ast.AST) -> list[ast.stmt]:
    """Return the statements before a child in the block that holds it."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list):
            for index, each in enumerate(block):
                if each is child:
                    return block[:index]
    return []


def _refuses(statement: ast.stmt) -> bool:
    """Return whether a statement ends the function for a name that is on no list."""
    if isinstance(statement, ast.Assert):
        return _allows(statement.test)
    if isinstance(statement, ast.If) and isinstance(statement.body[-1], _LEAVING):
        return _forbids(statement.test)
    return False


def _allows(test: ast.expr) -> bool:
    """Return whether a test is true only for names on a list."""
    match test:
        case ast.Compare(ops=ops):
            return all(isinstance(op, _ALLOWING) for op in ops)
        case ast.BoolOp(op=ast.And(), values=values):
            return any(_allows(value) for value in values)
        case ast.BoolOp(op=ast.Or(), values=values):
            return all(_allows(value) for value in values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _forbids(operand)
        case ast.Call():
            # A function of the project's own (`self.is_allowed(name)`), `startswith`, `any`.
            return True
        case _:
            return False


def _forbids(test: ast.expr) -> bool:
    """Return whether a test is true for every name that is on no list."""
    match test:
        case ast.Compare(ops=ops):
            return all(isinstance(op, _FORBIDDING) for op in ops)
        case ast.BoolOp(op=ast.Or(), values=values):
            return any(_forbids(value) for value in values)
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_forbids(value) for value in values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _allows(operand)
        case _:
            return False

"""What the methods of a class do to the attributes of `self`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CHANGES: Final = frozenset({"update", "setdefault", "pop", "clear", "popitem"})


def changed(node: ast.ClassDef) -> dict[str, list[ast.AST]]:
    """Return where a class changes a dictionary that an attribute of `self` is, in place."""
    found: dict[str, list[ast.AST]] = {}
    for method, name in _methods(node):
        for each in ast.walk(method):
            for target in _changed_by(each):
                match target:
                    case ast.Attribute(value=ast.Name(id=owner), attr=attr) if owner == name:
                        found.setdefault(attr, []).append(each)
                    case _:
                        pass
    return found


def _changed_by(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.Assign(targets=[ast.Subscript(value=value)]):
            yield value
        case ast.AugAssign(op=ast.BitOr(), target=target):
            yield target
        case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in _CHANGES:
            yield value
        case _:
            return


def _methods(
    node: ast.ClassDef,
) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    """Yield the methods of a class that have a first parameter, with its name."""
    for method in node.body:
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
            first = [*method.args.posonlyargs, *method.args.args][:1]
            if first:
                yield method, first[0].arg


def assigned(node: ast.ClassDef) -> dict[str, list[ast.expr | None]]:
    """Return what the methods of a class assign to attributes of `self`; None: not followed."""
    found: dict[str, list[ast.expr | None]] = {}
    for method, name in _methods(node):
        for each in ast.walk(method):
            match each:
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        _note(found, name, target, value)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    _note(found, name, target, value)
                case ast.AugAssign(op=ast.BitOr()):
                    pass  # a change in place
                case ast.AugAssign(target=target):
                    _note(found, name, target, None)
                case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                    _note(found, name, target, value)
                case ast.For(target=target) | ast.AsyncFor(target=target):
                    _note(found, name, target, None)
                case _:
                    pass
    return found


def _note(
    found: dict[str, list[ast.expr | None]], name: str, target: ast.expr, value: ast.expr | None
) -> None:
    match target:
        case ast.Attribute(value=ast.Name(id=owner), attr=attr) if owner == name:
            found.setdefault(attr, []).append(value)
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            parts: Sequence[ast.expr | None] = [None] * len(targets)
            if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(targets):
                parts = value.elts
            for each, part in zip(targets, parts, strict=True):
                _note(found, name, each, part)
        case _:
            pass

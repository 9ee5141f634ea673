"""What is looked up again and again in one file, read once."""

from __future__ import annotations

import ast
from functools import wraps
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.source.module import Module

FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_Found = TypeVar("_Found")


def once(read: Callable[[Module], _Found]) -> Callable[[Module], _Found]:
    """Return a function of a file whose answer is remembered as long as the file is."""
    known: WeakKeyDictionary[Module, _Found] = WeakKeyDictionary()

    @wraps(read)
    def answer(module: Module) -> _Found:
        if module not in known:
            known[module] = read(module)
        return known[module]

    return answer


def holder(module: Module, node: ast.AST) -> ast.AST:
    """Return the function that a node lies in, or the whole file."""
    for each in module.ancestors(node):
        if isinstance(each, FUNCTIONS):
            return each
    return module.tree


@once
def calls_by_function(module: Module) -> dict[ast.AST, tuple[ast.Call, ...]]:
    """Return the calls of each function, and of the file's own body, in the order of the text."""
    found: dict[ast.AST, list[ast.Call]] = {}
    for node in module.call_nodes:
        found.setdefault(holder(module, node), []).append(node)
    return {function: tuple(calls) for function, calls in found.items()}


@once
def previous_statements(module: Module) -> dict[ast.AST, ast.stmt]:
    """Return the statement before each statement in the same block."""
    found: dict[ast.AST, ast.stmt] = {}
    for node in (module.tree, *module.parents):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                found.update((after, before) for before, after in pairwise(block))
    return found

"""Loads that run only where the function's caller has asked for them in so many words."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Severity
from everybit.source.checks.flow import conditions, names_in
from everybit.source.checks.index import FUNCTIONS, previous_statements
from everybit.source.scopes import parameters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.source.checks.load import Load
    from everybit.source.module import Module

#: Parameters by which somebody says that a file is trusted.
_CONSENT: Final = re.compile(
    r"^(?:allow|accept|enable|permit)_?(?:unsafe_?)?(?:pickl\w*|unsafe\w*|code\w*|dangerous\w*)$"
    r"|^(?:unsafe|dangerous)\w*$|^(?:is_)?trust(?:ed)?(?:_\w+)?$|^i_trust\w*$|_is_trusted$"
)
_SAID: Final = "; only where the caller has asked for it by {}"


def as_asked(module: Module, load: Load) -> Load:
    """Return a load as a note where a parameter such as `allow_pickle` decides on it."""
    if not isinstance(load.node, ast.Call) or load.inner is not None:
        return load
    name = _asked_by(module, load.node)
    if not name:
        return load
    return replace(
        load,
        severity=Severity.NOTE,
        message=load.message + _SAID.format(name),
        evidence={**load.evidence, "asked_by": name},
    )


def _asked_by(module: Module, call: ast.Call) -> str:
    function = module.enclosing(call, *FUNCTIONS)
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return ""
    given = {arg.arg for arg in parameters(function.args) if _CONSENT.search(arg.arg)}
    if not given:
        return ""
    tests = [test for test, _ in conditions(module, call)]
    for test in (*tests, *_left_by(module, call)):
        named = names_in(test.test)
        for name in list(ast.walk(test.test)):
            if isinstance(name, ast.Name):  # `restricted = not allow_pickle`
                named |= {n for value in module.definitions(name) for n in names_in(value)}
        found = sorted(named & given)
        if found:
            return found[0]
    return ""


def _left_by(module: Module, node: ast.AST) -> Iterator[ast.If]:
    """Yield the tests before a node whose other way leaves: `if not trusted: return ...`."""
    before = previous_statements(module)
    child: ast.AST = module.statement(node)
    while not isinstance(child, (*FUNCTIONS, ast.Module)):
        each: ast.stmt | None = before.get(child)
        while each is not None:
            if isinstance(each, ast.If) and isinstance(each.body[-1], ast.Return | ast.Raise):
                yield each
            each = before.get(each)
        child = module.parents[child]

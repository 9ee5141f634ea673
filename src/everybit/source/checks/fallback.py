"""Unsafe loads that run because a safer one of the same thing failed."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from everybit.source.checks import loaders
from everybit.source.checks.index import FUNCTIONS, once, previous_statements

if TYPE_CHECKING:
    from collections.abc import Iterable

    from everybit.source.checks.load import Load
    from everybit.source.module import Module

#: Loads of one `try` that are compared with what follows its failure.
_MAX_FIRST: Final = 64
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)
#: A handler for these follows no refusal: the first load never began.
_NOT_A_REFUSAL: Final = frozenset(
    {"ImportError", "ModuleNotFoundError", "NameError", "FileNotFoundError", "KeyError"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """What an unsafe load follows.

    Attributes:
        first: The load that failed.
        caught: What the handler catches, as it is written; empty for everything.
    """

    first: ast.Call
    caught: str


def find_fallbacks(module: Module, loads: Iterable[Load]) -> dict[Load, Fallback]:
    """Return, for each unsafe load that follows a failed one, what it follows.

    Args:
        module: Of the loads.
        loads: The unsafe loads of the file.
    """
    loads = tuple(loads)
    unsafe = {load.node for load in loads}
    found: dict[Load, Fallback] = {}
    for load in loads:
        if not isinstance(load.node, ast.Call):
            continue
        follows = (
            _in_handler(module, load.node, unsafe)
            or _after_handler(module, load.node, unsafe)
            or (_next_turn(module, load.node) if load.falls_through else None)
        )
        if follows is not None:
            found[load] = follows
    return found


def for_old_versions(module: Module, node: ast.AST) -> bool:
    """Return whether a load leaves an argument out because a version does not know it.

    That is one in an `except TypeError`, after the same load with `weights_only`.
    """
    handler = module.enclosing(node, ast.ExceptHandler)
    if handler is None or handler.type is None or module.source(handler.type) != "TypeError":
        return False
    return any(
        keyword.arg == "weights_only"
        for call in _tried(module).get(module.parents[handler], ())
        for keyword in call.keywords
    )


def _in_handler(module: Module, node: ast.Call, unsafe: set[ast.AST]) -> Fallback | None:
    for each in module.ancestors(node):
        if isinstance(each, FUNCTIONS):
            return None
        if isinstance(each, ast.ExceptHandler):
            held = module.parents[each]
            if isinstance(held, ast.Try):
                follows = _follows(module, node, held, each, unsafe)
                if follows is not None:
                    return follows
    return None


def _after_handler(module: Module, node: ast.Call, unsafe: set[ast.AST]) -> Fallback | None:
    """Return what a load follows that stands after a `try` whose handlers only pass."""
    child: ast.AST = module.statement(node)
    while not isinstance(child, (*FUNCTIONS, *_LOOPS, ast.Module)):
        before = previous_statements(module).get(child)
        if (
            isinstance(before, ast.Try)
            and before.handlers
            and _ends(before.body)
            and all(_passes(handler) for handler in before.handlers)
        ):
            return _follows(module, node, before, before.handlers[0], unsafe)
        child = module.parents[child]
    return None


def _ends(body: list[ast.stmt]) -> bool:
    return isinstance(body[-1], ast.Return)


def _passes(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler goes on to what stands after the `try`."""
    return not any(
        isinstance(node, ast.Raise | ast.Return | ast.Continue | ast.Break)
        for node in ast.walk(handler)
    )


def _follows(
    module: Module,
    node: ast.Call,
    held: ast.Try,
    handler: ast.ExceptHandler,
    unsafe: set[ast.AST],
) -> Fallback | None:
    caught = module.source(handler.type) if handler.type is not None else ""
    if caught and {word.strip() for word in caught.strip("()").split(",")} <= _NOT_A_REFUSAL:
        return None
    calls = _tried(module).get(held, ())
    if any(each in unsafe for each in calls):
        return None  # the first one is as unsafe
    same = [each for each in calls[:_MAX_FIRST] if _shared(each, node)]
    return Fallback(first=same[0], caught=caught) if same else None


@once
def _tried(module: Module) -> dict[ast.AST, list[ast.Call]]:
    """Return the loads in the body of each `try`."""
    found: dict[ast.AST, list[ast.Call]] = {}
    for call in module.call_nodes:
        if not _is_load(module, call):
            continue
        child: ast.AST = call
        for each in module.ancestors(call):
            if isinstance(each, ast.Try) and not isinstance(child, ast.ExceptHandler):
                found.setdefault(each, []).append(call)
            child = each
    return found


def _is_load(module: Module, call: ast.Call) -> bool:
    names = module.resolve_all(call.func)
    if isinstance(call.func, ast.Attribute | ast.Name):
        names = (*names, call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id)
    return any(loaders.is_load(name) for name in names)


def _shared(first: ast.Call, then: ast.Call) -> bool:
    """Return whether both load from the same: one says what the other says first.

    Where one of them takes an open file, its name is another one: the rest of the line decides
    nothing, and both count as the same.
    """
    a, b = _source(first), _source(then)
    if a is None or b is None:
        return False
    if ast.dump(a) == ast.dump(b):
        return True
    names = [{n.id for n in ast.walk(each) if isinstance(n, ast.Name)} for each in (a, b)]
    if isinstance(a, ast.Name) and isinstance(b, ast.Name):
        files = ("f", "fp", "fh", "file", "fin", "fd", "file_handler", "handle", "stream", "fobj")
        return a.id in files or b.id in files
    plain = isinstance(a, ast.Name | ast.Attribute) or isinstance(b, ast.Name | ast.Attribute)
    return plain and bool(names[0] & names[1])


def _source(call: ast.Call) -> ast.expr | None:
    if call.args:
        return call.args[0]
    return call.keywords[0].value if call.keywords else None


def _next_turn(module: Module, node: ast.Call) -> Fallback | None:
    """Return what a load follows that is tried with `True` and, after it failed, with `False`."""
    held = module.enclosing(node, ast.Try)
    if held is None or node not in _tried(module).get(held, ()):
        return None
    loop = next(
        (each for each in module.ancestors(held) if isinstance(each, (*_LOOPS, *FUNCTIONS))),
        None,
    )
    if not isinstance(loop, ast.For | ast.AsyncFor):
        return None
    targets = {each.id for each in ast.walk(loop.target) if isinstance(each, ast.Name)}
    used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    if not targets & used:
        return None
    caught = held.handlers[0].type if held.handlers else None
    return Fallback(first=node, caught=module.source(caught) if caught is not None else "")

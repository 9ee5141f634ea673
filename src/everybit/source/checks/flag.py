"""What an argument can be that the resolution leaves open: a command-line flag, a loop's turns."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from everybit.source.calls import Argument, CallSite
    from everybit.source.meaning import Constant
    from everybit.source.module import Module

#: What the default of a flag is that takes no value.
_ACTIONS: Final = {"store_true": False, "store_false": True}


def possible(site: CallSite, name: str, position: int | None = None) -> Argument:
    """Return what a call passes, with the defaults of flags and the turns of a loop filled in.

    Args:
        site: The call.
        name: The keyword.
        position: Its place among the positional arguments, from 0.
    """
    given = site.argument(name, position=position)
    if not given.is_unknown or given.node is None:
        return given
    found = _by_flag(site.module, given.node) or _by_loop(site.module, given.node)
    return replace(given, values=found) if found else given


def _by_flag(module: Module, node: ast.expr) -> tuple[Constant, ...]:
    """Return the default of the flag that `args.NAME` reads, as `add_argument` gives it."""
    negated = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    target = node.operand if isinstance(node, ast.UnaryOp) and negated else node
    if not isinstance(target, ast.Attribute) or "add_argument" not in module.text:
        return ()
    for call in module.call_nodes:
        if not isinstance(call.func, ast.Attribute) or call.func.attr != "add_argument":
            continue
        if _destination(call) != target.attr:
            continue
        default = _default(module, call)
        return tuple(not value for value in default) if negated else default
    return ()


def _destination(call: ast.Call) -> str:
    for keyword in call.keywords:
        if keyword.arg == "dest" and isinstance(keyword.value, ast.Constant):
            return str(keyword.value.value)
    for value in call.args:
        if isinstance(value, ast.Constant) and str(value.value).startswith("--"):
            return str(value.value)[2:].replace("-", "_")
    return ""


def _default(module: Module, call: ast.Call) -> tuple[Constant, ...]:
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if "default" in given:
        found = module.constants(given["default"])
        return found.values if not found.unknown else ()
    action = given.get("action")
    if isinstance(action, ast.Constant) and action.value in _ACTIONS:
        return (_ACTIONS[str(action.value)],)
    return ()


def _by_loop(module: Module, node: ast.expr) -> tuple[Constant, ...]:
    """Return the constants that `for NAME in (True, False)` goes through."""
    if not isinstance(node, ast.Name):
        return ()
    for each in module.ancestors(node):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return ()
        if not isinstance(each, ast.For) or not isinstance(each.target, ast.Name):
            continue
        if each.target.id == node.id and isinstance(each.iter, ast.Tuple | ast.List):
            found = [module.constants(element) for element in each.iter.elts]
            if all(one.values and not one.unknown for one in found):
                return tuple(value for one in found for value in one.values)
    return ()

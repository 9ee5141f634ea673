"""What an argument is unless the command line says otherwise, and in the turns of a loop."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from everybit.source.checks.index import FUNCTIONS
from everybit.source.meaning import Literal

if TYPE_CHECKING:
    from everybit.source.calls import Argument, CallSite
    from everybit.source.meaning import Constant
    from everybit.source.module import Module


def possible(site: CallSite, name: str, position: int | None = None) -> Argument:
    """Return what a call passes, with the defaults of flags and the turns of a loop filled in.

    A flag counts as its default: what somebody asks for on the command line is their choice.

    Args:
        site: The call.
        name: The keyword.
        position: Its place among the positional arguments, from 0.
    """
    given = site.argument(name, position=position)
    if given.node is None:
        return given
    default = _by_flag(site.module, given.node)
    if default:
        return replace(given, values=default, unknown=True)
    if not given.is_unknown:
        return given
    found = _by_loop(site.module, given.node)
    return replace(given, values=found) if found else given


def _by_flag(module: Module, node: ast.expr) -> tuple[Constant, ...]:
    """Return the default of the flag that `args.NAME` reads, as `add_argument` gives it."""
    negated = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    target = node.operand if isinstance(node, ast.UnaryOp) and negated else node
    if not isinstance(target, ast.Attribute) or not isinstance(target.value, ast.Name):
        return ()
    if "add_argument" not in module.text or target.value.id in ("self", "cls"):
        return ()
    first = next(iter(module.flags.get(target.attr, ())), None)
    if not isinstance(first, Literal):
        return ()
    return (not first.value,) if negated else (first.value,)


def _by_loop(module: Module, node: ast.expr) -> tuple[Constant, ...]:
    """Return the constants that `for NAME in (True, False)` goes through."""
    if not isinstance(node, ast.Name):
        return ()
    for each in module.ancestors(node):
        if isinstance(each, FUNCTIONS):
            return ()
        if not isinstance(each, ast.For) or not isinstance(each.target, ast.Name):
            continue
        if each.target.id == node.id and isinstance(each.iter, ast.Tuple | ast.List):
            found = [module.constants(element) for element in each.iter.elts[:8]]
            if all(one.values and not one.unknown for one in found):
                return tuple(value for one in found for value in one.values)
    return ()

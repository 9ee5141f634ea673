"""Which expressions a name stands for: the call that made an object, the dictionary written."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from everybit.source.meaning import Defined, Package
from everybit.source.scopes import How

if TYPE_CHECKING:
    from everybit.source.module import Module

Origin = tuple["Module", ast.expr]
Known = dict[ast.expr, tuple[Origin, ...]]

_MAX_DEPTH: Final = 12
_FOLLOWED: Final = (How.ASSIGNED, How.ENTERED, How.PARAMETER)


def origins_of(module: Module, node: ast.expr) -> tuple[Origin, ...]:
    """Return the expressions that an expression stands for; itself where it is no name.

    What a name is bound to in ways that are not followed (a loop, a parameter) is left out.
    """
    return _origins(module, node, 0, {})


def _origins(module: Module, node: ast.expr, depth: int, known: Known) -> tuple[Origin, ...]:
    """Return the same; functions that call each other are followed once for one question."""
    if depth > _MAX_DEPTH:
        return ()
    if node not in known:
        known[node] = ()  # in a circle it adds nothing of its own
        known[node] = _follow(module, node, depth, known)
    return known[node]


def _follow(module: Module, node: ast.expr, depth: int, known: Known) -> tuple[Origin, ...]:
    match node:
        case ast.Name():
            return _name(module, node, depth, known)
        case ast.Attribute():
            return _attribute(module, node, depth, known) or ((module, node),)
        case ast.IfExp(body=body, orelse=orelse):
            return _each(module, [body, orelse], depth, known)
        case ast.BoolOp(values=values):
            return _each(module, values, depth, known)
        case ast.NamedExpr(value=value) | ast.Await(value=value):
            return _origins(module, value, depth + 1, known)
        case ast.Call():
            return _call(module, node, depth, known)
        case _:
            return ((module, node),)


def _each(module: Module, nodes: list[ast.expr], depth: int, known: Known) -> tuple[Origin, ...]:
    found = [origin for node in nodes for origin in _origins(module, node, depth + 1, known)]
    return tuple(dict.fromkeys(found))[:64]


def _name(module: Module, node: ast.Name, depth: int, known: Known) -> tuple[Origin, ...]:
    scope, own = module.holder_of(node)
    if scope is None:
        return ()
    found: list[Origin] = []
    for binding in module.flow.reaching(scope.bindings[node.id], node if own else None):
        if binding.how in _FOLLOWED and binding.value is not None:
            found += _origins(module, binding.value, depth + 1, known)
        elif binding.how is How.UNPACKED and binding.value is not None:
            for where, item in _item_of(module, binding.value, binding.index, depth, known):
                found += _origins(where, item, depth + 1, known)
        elif binding.how is How.IMPORTED and isinstance(binding.node, ast.alias):
            found += _imported(module, binding.node, depth, known)
    return tuple(dict.fromkeys(found))[:64]


def item_of(module: Module, node: ast.expr, index: int) -> tuple[Origin, ...]:
    """Return one item of what a call of the project's functions gives, where it is written out."""
    return _item_of(module, node, index, 0, {})


def _item_of(
    module: Module, node: ast.expr, index: int, depth: int, known: Known
) -> tuple[Origin, ...]:
    if not isinstance(node, ast.Call | ast.Await | ast.Name):
        return ()
    found: list[Origin] = []
    for where, value in _origins(module, node, depth + 1, known):
        elements = value.elts if isinstance(value, ast.Tuple | ast.List) else []
        before = elements[: index + 1]
        if index < len(elements) and not any(isinstance(each, ast.Starred) for each in before):
            found.append((where, elements[index]))
    return tuple(found)


def _imported(module: Module, alias: ast.alias, depth: int, known: Known) -> tuple[Origin, ...]:
    statement = module.parents.get(alias)
    if not isinstance(statement, ast.ImportFrom):
        return ()
    if statement.level:
        source = module.project.relative(module, statement.level, statement.module or "")
    else:
        source = module.project.find(module, statement.module or "")
    if source is None:
        return ()
    return _global(source, alias.name, depth, known)


def _global(source: Package, name: str, depth: int, known: Known) -> tuple[Origin, ...]:
    where = source.module
    if where is None or depth > _MAX_DEPTH:
        return ()
    found: list[Origin] = []
    for binding in where.flow.reaching(where.top.bindings.get(name, []), None):
        if binding.how is How.ASSIGNED and binding.value is not None:
            found += _origins(where, binding.value, depth + 1, known)
        elif binding.how is How.IMPORTED and isinstance(binding.node, ast.alias):
            found += _imported(where, binding.node, depth + 1, known)
    return tuple(found)


def _attribute(module: Module, node: ast.Attribute, depth: int, known: Known) -> tuple[Origin, ...]:
    found: list[Origin] = []
    for owner in module.resolver.meanings(node.value):
        if isinstance(owner, Package):
            found += _global(owner, node.attr, depth + 1, known)
        elif isinstance(owner, Defined) and isinstance(owner.node, ast.ClassDef):
            values = owner.module.self_assignments(owner.node).get(node.attr, [])
            for value in values:
                if value is not None:
                    found += _origins(owner.module, value, depth + 1, known)
            if not values:
                scope = owner.module.scopes[owner.node]
                for binding in scope.bindings.get(node.attr, [])[-1:]:
                    if binding.how is How.ASSIGNED and binding.value is not None:
                        found += _origins(owner.module, binding.value, depth + 1, known)
    return tuple(dict.fromkeys(found))[:64]


def _call(module: Module, node: ast.Call, depth: int, known: Known) -> tuple[Origin, ...]:
    """Return what a function of the project returns; any other call stands for itself."""
    found: list[Origin] = []
    for meaning in module.resolver.meanings(node.func):
        if isinstance(meaning, Defined) and isinstance(
            meaning.node, ast.FunctionDef | ast.AsyncFunctionDef
        ):
            for value in meaning.module.returns(meaning.node):
                found += _origins(meaning.module, value, depth + 1, known)
        else:
            found.append((module, node))
    return tuple(dict.fromkeys(found))[:64] or ((module, node),)


def returns_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[ast.expr, ...]:
    """Return the values that a function returns; nothing for a generator."""
    found: list[ast.expr] = []
    waiting: list[ast.AST] = list(reversed(node.body))
    while waiting:
        each = waiting.pop()
        if isinstance(each, ast.Yield | ast.YieldFrom):
            return ()
        if isinstance(each, ast.Return) and each.value is not None:
            found.append(each.value)
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        waiting += reversed(list(ast.iter_child_nodes(each)))
    return tuple(found)

"""Which names a module, class, function or comprehension binds, where, and to what."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Nodes that open a scope of their own.
SCOPES: Final = (
    ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ListComp,
    ast.SetComp, ast.DictComp, ast.GeneratorExp,
)  # fmt: skip
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

#: Nodes that bind a name, or note a change of one.
_BINDING: Final = frozenset(
    {
        ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.Import,
        ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr, ast.For,
        ast.AsyncFor, ast.comprehension, ast.withitem, ast.ExceptHandler, ast.MatchAs,
        ast.MatchStar, ast.MatchMapping, ast.Delete, ast.Call,
    }
)  # fmt: skip
#: Nodes that Python shares between all places: they have no parent.
_MARKS: Final = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)

Place = tuple[int, int]
START: Final[Place] = (0, 0)
END: Final[Place] = (1 << 60, 0)


class How(StrEnum):
    """How a name was bound."""

    ASSIGNED = "assigned"  # to `value`
    IMPORTED = "imported"  # `node` is the alias
    DEFINED = "defined"  # by def or class
    PARAMETER = "parameter"
    ENTERED = "entered"  # `with value as name`
    ITERATED = "iterated"  # `for name in value`
    UNPACKED = "unpacked"  # to one item of `value`, by its place
    OTHER = "other"  # caught, deleted, matched: not followed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Binding:
    """One place that binds a name.

    Attributes:
        how: How.
        node: Where: the statement, alias, parameter or target.
        value: The expression it is bound to, where there is one.
        place: From where on it holds.
        elsewhere: Whether a function does it, by `global` or `nonlocal`: at any time.
        index: Of an unpacked one, which item it is bound to.
    """

    how: How
    node: ast.AST
    value: ast.expr | None = None
    place: Place
    elsewhere: bool = False
    index: int = 0


@dataclass(slots=True, kw_only=True, eq=False)
class Scope:
    """The names of one scope.

    Attributes:
        node: What opens it.
        parent: The scope around it.
        bindings: In the order of the text.
        outer: Names declared `global` or `nonlocal`, with which of the two.
        stars: Modules whose names `import *` brings, in order.
        changes: Names whose object is changed in place (`d["x"] = 1`, `d.update(...)`): where.
    """

    node: ast.AST
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    outer: dict[str, str] = field(default_factory=dict)
    stars: list[ast.ImportFrom] = field(default_factory=list)
    changes: dict[str, list[ast.AST]] = field(default_factory=dict)

    @property
    def module_scope(self) -> Scope:
        """The outermost scope."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def bind(self, name: str, binding: Binding) -> None:
        """Take in one binding, where the name was declared to belong."""
        target: Scope = self
        while isinstance(target.node, _COMPREHENSIONS) and binding.how is How.ASSIGNED:
            if not isinstance(binding.node, ast.NamedExpr) or target.parent is None:
                break
            target = target.parent  # a walrus binds outside of its comprehension
        declared = target.outer.get(name)
        if declared == "global":
            target = target.module_scope
        elif declared == "nonlocal":
            target = _holder(target.parent, name) or target
        if declared and target is not self:
            binding = replace(binding, elsewhere=True)
        target.bindings.setdefault(name, []).append(binding)


def _holder(scope: Scope | None, name: str) -> Scope | None:
    while scope is not None:
        if name in scope.bindings and isinstance(scope.node, _FUNCTIONS):
            return scope
        scope = scope.parent
    return None


def start_of(node: ast.AST) -> Place:
    """Return where a node begins: line from 1, column in bytes from 0."""
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def end_of(node: ast.AST) -> Place:
    """Return where a node ends."""
    line = getattr(node, "end_lineno", None)
    column = getattr(node, "end_col_offset", None)
    return (line, column or 0) if line is not None else start_of(node)


def read_scopes(tree: ast.Module) -> tuple[dict[ast.AST, Scope], dict[ast.AST, ast.AST]]:
    """Return the scope that each scope's node opens, and every node's parent.

    Walks with a list of its own, so that depth costs no recursion.
    """
    top = Scope(node=tree, parent=None)
    scopes: dict[ast.AST, Scope] = {tree: top}
    parents: dict[ast.AST, ast.AST] = {}
    waiting: list[tuple[ast.AST, Scope]] = [(each, top) for each in reversed(tree.body)]
    parents.update(dict.fromkeys(tree.body, tree))
    while waiting:
        node, scope = waiting.pop()
        inner = scope
        if isinstance(node, SCOPES):
            inner = scopes[node] = Scope(node=node, parent=scope)
            _declare(node, inner)
        kind = type(node)
        if kind in _BINDING:
            _bind(node, scope, inner)
        children: list[ast.AST] = []
        for name in kind._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                children += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, _MARKS):
                children.append(value)
        children.reverse()
        for child in children:
            parents[child] = node
        if inner is scope:
            waiting += [(child, scope) for child in children]
        else:
            outside = set(_evaluated_outside(node))
            waiting += [(child, scope if child in outside else inner) for child in children]
    for scope in scopes.values():
        for bindings in scope.bindings.values():
            bindings.sort(key=lambda binding: binding.place)
    return scopes, parents


def _declare(node: ast.AST, scope: Scope) -> None:
    """Note `global` and `nonlocal` before the bindings that they concern."""
    waiting: list[ast.AST] = list(getattr(node, "body", [])) if _has_body(node) else []
    while waiting:
        each = waiting.pop()
        if isinstance(each, ast.Global | ast.Nonlocal):
            word = "global" if isinstance(each, ast.Global) else "nonlocal"
            scope.outer.update(dict.fromkeys(each.names, word))
        elif isinstance(each, ast.stmt | ast.ExceptHandler | ast.match_case) and not isinstance(
            each, SCOPES
        ):
            waiting += [
                child
                for child in ast.iter_child_nodes(each)
                if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case)
            ]


def _has_body(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


def _evaluated_outside(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the children of a scope's node that are evaluated in the scope around it."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from node.decorator_list
        yield node.args  # defaults and annotations; the names themselves are bound in `_bind`
        if node.returns is not None:
            yield node.returns
    elif isinstance(node, ast.Lambda):
        yield node.args
    elif isinstance(node, ast.ClassDef):
        yield from node.decorator_list
        yield from node.bases
        yield from node.keywords
    elif isinstance(node, _COMPREHENSIONS):
        # Only the first iterable is; its generator holds targets too, which `_bind` has read.
        return


def parameters(args: ast.arguments) -> list[ast.arg]:
    """Return all parameters, `*args` and `**kwargs` too."""
    found = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    return found + [arg for arg in (args.vararg, args.kwarg) if arg is not None]


def defaults(args: ast.arguments) -> Mapping[str, ast.expr]:
    """Return the default of each parameter that has one."""
    positional = [*args.posonlyargs, *args.args]
    found = {
        arg.arg: value
        for arg, value in zip(reversed(positional), reversed(args.defaults), strict=False)
    }
    for arg, value in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        if value is not None:
            found[arg.arg] = value
    return found


def _bind(node: ast.AST, scope: Scope, inner: Scope) -> None:
    """Note what a node binds in the scope around it, and a function's parameters in its own."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            place = end_of(node)
            scope.bind(node.name, Binding(how=How.DEFINED, node=node, place=place))
        case ast.Import():
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                scope.bind(name, Binding(how=How.IMPORTED, node=alias, place=end_of(node)))
        case ast.ImportFrom():
            for alias in node.names:
                if alias.name == "*":
                    scope.stars.append(node)
                    continue
                name = alias.asname or alias.name
                scope.bind(name, Binding(how=How.IMPORTED, node=alias, place=end_of(node)))
        case ast.Assign():
            for target in node.targets:
                _bind_target(scope, target, node.value, node)
        case ast.AnnAssign():
            _bind_target(scope, node.target, node.value, node)
        case ast.AugAssign():
            if isinstance(node.op, ast.BitOr) and isinstance(node.target, ast.Name):
                scope.changes.setdefault(node.target.id, []).append(node)
            else:
                _bind_target(scope, node.target, None, node)
        case ast.NamedExpr():
            _bind_target(scope, node.target, node.value, node)
        case ast.For() | ast.AsyncFor():
            _bind_target(scope, node.target, node.iter, node, How.ITERATED, end_of(node.iter))
        case ast.comprehension():
            _bind_target(scope, node.target, node.iter, node, How.ITERATED, START)
        case ast.withitem(optional_vars=ast.expr() as target):
            place = end_of(target)
            _bind_target(scope, target, node.context_expr, node, How.ENTERED, place)
        case ast.ExceptHandler(name=str() as name):
            scope.bind(name, Binding(how=How.OTHER, node=node, place=start_of(node)))
        case ast.MatchAs(name=str() as name) | ast.MatchStar(name=str() as name):
            scope.bind(name, Binding(how=How.OTHER, node=node, place=end_of(node)))
        case ast.MatchMapping(rest=str() as name):
            scope.bind(name, Binding(how=How.OTHER, node=node, place=end_of(node)))
        case ast.Delete():
            for target in node.targets:
                _note_change(scope, target, node)
                if isinstance(target, ast.Name):
                    scope.bind(target.id, Binding(how=How.OTHER, node=node, place=end_of(node)))
        case ast.Call(func=ast.Attribute(value=ast.Name() as name, attr=attr)):
            if attr in ("update", "setdefault", "pop", "clear", "popitem"):
                scope.changes.setdefault(name.id, []).append(node)
        case _:
            pass
    if isinstance(node, _FUNCTIONS):
        given = defaults(node.args)
        for arg in parameters(node.args):
            value = given.get(arg.arg)
            inner.bind(arg.arg, Binding(how=How.PARAMETER, node=arg, value=value, place=START))


def _bind_target(
    scope: Scope,
    target: ast.expr,
    value: ast.expr | None,
    node: ast.AST,
    how: How = How.ASSIGNED,
    place: Place | None = None,
) -> None:
    where = end_of(node) if place is None else place
    if isinstance(target, ast.Name):
        scope.bind(target.id, Binding(how=how, node=node, value=value, place=where))
    elif isinstance(target, ast.Starred):
        _bind_target(scope, target.value, None, node, How.OTHER, where)
    elif isinstance(target, ast.Tuple | ast.List):
        parts = _unpacked(target, value) if how is How.ASSIGNED else None
        whole = how is How.ASSIGNED and not any(isinstance(e, ast.Starred) for e in target.elts)
        for index, each in enumerate(target.elts):
            if parts is not None:
                _bind_target(scope, each, parts[index], node, how, where)
            elif whole and isinstance(each, ast.Name):
                unpacked = Binding(
                    how=How.UNPACKED, node=node, value=value, place=where, index=index
                )
                scope.bind(each.id, unpacked)
            else:
                _bind_target(scope, each, None, node, How.OTHER, where)
    else:
        _note_change(scope, target, node)


def _unpacked(target: ast.Tuple | ast.List, value: ast.expr | None) -> list[ast.expr] | None:
    """Return what each name of `a, b = x, y` gets; None where it cannot be told."""
    if not isinstance(value, ast.Tuple | ast.List) or len(value.elts) != len(target.elts):
        return None
    if any(isinstance(part, ast.Starred) for part in (*target.elts, *value.elts)):
        return None
    return value.elts


def _note_change(scope: Scope, target: ast.expr, node: ast.AST) -> None:
    if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
        scope.changes.setdefault(target.value.id, []).append(node)

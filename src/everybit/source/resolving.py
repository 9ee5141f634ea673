"""What the expressions of one module mean, followed through names, attributes and calls."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeVar

from everybit.source import attributes, folding, imports, items
from everybit.source.flags import PARSED
from everybit.source.meaning import (
    UNKNOWN,
    UNKNOWNS,
    Defined,
    External,
    Given,
    Literal,
    Meanings,
    joined,
    literal,
)
from everybit.source.scopes import SCOPES, Binding, How, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from everybit.source.entries import Entries
    from everybit.source.meaning import FunctionNode
    from everybit.source.module import Module

#: Steps from a name to what it means. Honest code takes a handful.
_MAX_DEPTH: Final = 40
#: All steps for one question: hostile code could ask for any number.
_MAX_STEPS: Final = 5_000
#: Deeper than any step.
_NOTHING_CUT: Final = 1 << 30
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_Node = TypeVar("_Node", bound=ast.AST)


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A call of a function of the project: what its parameters mean in this one call.

    Attributes:
        function: The function.
        parameters: What each parameter means; a missing one is not known.
        keywords: What arrives in its `**kwargs`; None where that is not known.
        known: What its expressions were found to mean in this call.
    """

    function: FunctionNode
    parameters: Mapping[str, Meanings]
    keywords: Entries | None = None
    known: dict[ast.AST, Meanings] = field(default_factory=dict)


class Resolver:
    """Follows the expressions of one module.

    Args:
        module: The module.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self._known: dict[ast.AST, Meanings] = {}
        self._open: dict[ast.AST, int] = {}

    def meanings(self, node: ast.expr, frame: Frame | None = None) -> Meanings:
        """Return all that an expression may mean; `Unknown` is among it where there is more."""
        return self._once(node, frame, self._meanings)

    def _once(
        self,
        node: _Node,
        frame: Frame | None,
        follow: Callable[[_Node, Frame | None], Meanings],
    ) -> Meanings:
        """Return what a node means, followed once and remembered.

        In a circle only the answer of the step where it closes is whole and remembered, and those
        beside it; so every node of a chain is followed once, however many ways lead to it.
        """
        known = self._known if frame is None else frame.known
        if node in known:
            return known[node]
        following = self.module.project.following
        depth = following.depth
        if depth == 0:
            following.steps = 0
        following.steps += 1
        if node in self._open:
            following.lowest = min(following.lowest, self._open[node])
            return UNKNOWNS
        if depth > _MAX_DEPTH or following.steps > _MAX_STEPS:
            following.lowest = 0
            return UNKNOWNS
        outer, following.lowest = following.lowest, _NOTHING_CUT
        self._open[node] = depth
        following.depth += 1
        try:
            found = follow(node, frame)
        finally:
            del self._open[node]
            following.depth -= 1
            cut, following.lowest = following.lowest, outer
        if cut >= depth:
            known[node] = found
        else:
            following.lowest = min(outer, cut)
        return found

    def _imported(self, alias: ast.alias, frame: Frame | None) -> Meanings:
        return imports.imported(self.module, alias)

    def _meanings(self, node: ast.expr, frame: Frame | None) -> Meanings:
        match node:
            case ast.Constant(value=value):
                if isinstance(value, str | bytes | int | float | complex | None):
                    return (literal(value),)
                return UNKNOWNS
            case ast.Name():
                return self._name(node, frame)
            case ast.Attribute():
                owners = self.meanings(node.value, frame)
                if PARSED in owners and (flags := self.module.flags.get(node.attr)):
                    return flags
                if node.attr == "value" and (members := self._members(node.value)):
                    return members
                return joined(*(attributes.attribute(owner, node.attr) for owner in owners))
            case ast.Call():
                return self._call(node, frame)
            case ast.NamedExpr(value=value) | ast.Await(value=value):
                return self.meanings(value, frame)
            case ast.IfExp(body=body, orelse=orelse):
                return joined(self.meanings(body, frame), self.meanings(orelse, frame))
            case ast.BoolOp():
                return folding.either(self, node, frame)
            case ast.UnaryOp():
                return folding.unary(self, node, frame)
            case ast.BinOp(op=ast.Add()) | ast.JoinedStr():
                return folding.text(self, node, frame)
            case ast.Subscript():
                return items.subscript(self, node, frame)
            case ast.Lambda():
                return (Defined(self.module, node),)
            case _:
                return UNKNOWNS

    def _members(self, node: ast.expr) -> Meanings:
        """Return what the values of members of an enumeration mean; nothing for anything else."""
        if "Enum" not in self.module.text or not isinstance(node, ast.Attribute):
            return ()
        owners = self.meanings(node.value)
        if not any(isinstance(m, Defined) and attributes.is_enum(m) for m in owners):
            return ()
        return self.meanings(node)

    def _name(self, node: ast.Name, frame: Frame | None) -> Meanings:
        scope = self.module.scope_of(node)
        return self.look_up(node.id, scope, node, frame)

    def look_up(
        self, name: str, scope: Scope, use: ast.AST | None, frame: Frame | None = None
    ) -> Meanings:
        """Return what a name means at a place in a scope.

        Args:
            name: The name.
            scope: Where it is used.
            use: The place; None for the end of the scope.
            frame: The call that is being followed.
        """
        own: Scope | None = scope
        if scope.outer.get(name) == "global":
            own, use = scope.module_scope, None
        while own is not None:
            bindings = own.bindings.get(name)
            if bindings and (own is scope or not isinstance(own.node, ast.ClassDef)):
                found = self.module.flow.reaching(bindings, use)
                if found:
                    return joined(*(self._bound(binding, frame) for binding in found))
                if isinstance(own.node, _FUNCTIONS):
                    return UNKNOWNS
            if isinstance(own.node, _FUNCTIONS):
                use = None  # it runs later: all that is around it has happened by then
            own = own.parent
        return imports.starred(self.module, name)

    def _bound(self, binding: Binding, frame: Frame | None) -> Meanings:
        match binding.how:
            case How.IMPORTED if isinstance(binding.node, ast.alias):
                return self._once(binding.node, None, self._imported)
            case How.DEFINED if isinstance(
                binding.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
            ):
                return (Defined(self.module, binding.node),)
            case How.ASSIGNED if binding.value is not None:
                return self.meanings(binding.value, frame)
            case How.ASSIGNED if isinstance(binding.node, ast.AnnAssign):
                return self._annotated(binding.node.annotation)
            case How.ENTERED if binding.value is not None:
                return self.meanings(binding.value, frame)
            case How.UNPACKED if binding.value is not None:
                return items.unpacked(self, binding.value, binding.index)
            case How.ITERATED if binding.value is not None:
                return items.each(self, binding.value)
            case How.PARAMETER if isinstance(binding.node, ast.arg):
                return self._parameter(binding.node, binding.value, frame)
            case _:
                return UNKNOWNS

    def _parameter(self, arg: ast.arg, default: ast.expr | None, frame: Frame | None) -> Meanings:
        function = self.module.parents[self.module.parents[arg]]
        if frame is not None and frame.function is function:
            return frame.parameters.get(arg.arg, UNKNOWNS)
        own = attributes.self_of(self.module, function, arg)
        if own is not None:
            return (own,)
        found = self.meanings(default) if default is not None else ()
        declared = self._annotated(arg.annotation) if arg.annotation is not None else UNKNOWNS
        return joined(found, declared, UNKNOWNS)

    def _annotated(self, annotation: ast.expr) -> Meanings:
        """Return what an annotation declares: an instance of a class, where it names one."""
        match annotation:
            case ast.Constant(value=str() as text):
                return self.module.parsed_annotation(text, annotation)
            case ast.BinOp(op=ast.BitOr(), left=left, right=right):
                return joined(self._annotated(left), self._annotated(right))
            case ast.Subscript(value=value, slice=inner):
                name = self.resolve_one(value)
                if name in ("typing.Optional", "typing.Annotated", "typing.Final"):
                    first = inner.elts[0] if isinstance(inner, ast.Tuple) else inner
                    return self._annotated(first)
                return UNKNOWNS
            case ast.Name() | ast.Attribute():
                return tuple(
                    attributes.result(meaning)
                    for meaning in self.meanings(annotation)
                    if isinstance(meaning, External | Defined)
                )
            case _:
                return UNKNOWNS

    def resolve_one(self, node: ast.expr) -> str | None:
        """Return the one dotted name that an expression means, None where it is not one."""
        names = [m.name for m in self.meanings(node) if isinstance(m, External | Defined)]
        return names[0] if len(names) == 1 else None

    def _call(self, node: ast.Call, frame: Frame | None) -> Meanings:
        found: list[Meanings] = []
        for meaning in self.meanings(node.func, frame):
            match meaning:
                case External(name="functools.partial") if node.args:
                    found.append(self._partial(node, frame))
                case External(name="getattr") if len(node.args) in (2, 3):
                    found.append(self._getattr(node, frame))
                case External(name="importlib.import_module" | "__import__") if node.args:
                    found.append(self._import_call(node, frame))
                case External(name="super"):
                    found.append(attributes.bases_of(self.module, node))
                case External(name="operator.attrgetter") if len(node.args) == 1:
                    found.append(UNKNOWNS)
                case External(name="bool") if len(node.args) == 1:
                    found.append(folding.truth(self, node.args[0], frame, negate=False))
                case External(name="str") if len(node.args) == 1:
                    found.append(folding.as_text(self, node.args[0], frame))
                case External(name="staticmethod" | "functools.cache" | "functools.wraps"):
                    args = node.args[:1]
                    found.append(self.meanings(args[0], frame) if args else UNKNOWNS)
                case External():
                    found.append((attributes.result(meaning),))
                case Defined(node=ast.ClassDef(), instance=False):
                    found.append((replace(meaning, instance=True, bound=()),))
                case Defined(instance=False):
                    found.append(attributes.returned(meaning))
                case Literal(value=None):
                    continue  # `x = None` before it is set: not what is called
                case _:
                    found.append(items.looked_up(self, node, frame))
        return joined(*found) or UNKNOWNS

    def _partial(self, node: ast.Call, frame: Frame | None) -> Meanings:
        given = tuple(self.given(node)[1:])
        found: list[Meanings] = []
        for meaning in self.meanings(node.args[0], frame):
            if isinstance(meaning, External | Defined):
                found.append((replace(meaning, bound=meaning.bound + given),))
            else:
                found.append(UNKNOWNS)
        return joined(*found)

    def given(self, node: ast.Call) -> list[Given]:
        """Return the arguments of a call in order, keywords after the positional ones."""
        found: list[Given] = []
        for value in node.args:
            if isinstance(value, ast.Starred):
                found.append(Given(self.module, value.value, starred="*"))
            else:
                found.append(Given(self.module, value))
        for keyword in node.keywords:
            starred = "" if keyword.arg else "**"
            found.append(Given(self.module, keyword.value, name=keyword.arg, starred=starred))
        return found

    def _getattr(self, node: ast.Call, frame: Frame | None) -> Meanings:
        names = self.meanings(node.args[1], frame)
        found: list[Meanings] = []
        for owner in self.meanings(node.args[0], frame):
            for name in names:
                if isinstance(name, Literal) and isinstance(name.value, str):
                    found.append(attributes.attribute(owner, name.value))
                else:
                    found.append(UNKNOWNS)
        if len(node.args) == 3:
            found.append(self.meanings(node.args[2], frame))
        return joined(*found)

    def _import_call(self, node: ast.Call, frame: Frame | None) -> Meanings:
        found: list[Meanings] = []
        for name in self.meanings(node.args[0], frame):
            if isinstance(name, Literal) and isinstance(name.value, str):
                found.append(imports.module_named(self.module, name.value))
            else:
                found.append(UNKNOWNS)
        return joined(*found)

    def scope_around(self, node: ast.AST) -> Scope:
        """Return the scope that an expression is evaluated in."""
        parents, scopes = self.module.parents, self.module.scopes
        child = node
        while (parent := parents.get(child)) is not None:
            if isinstance(parent, SCOPES) and _evaluates_inside(parent, child):
                return scopes[parent]
            child = parent
        return scopes[self.module.tree]


def _evaluates_inside(parent: ast.AST, child: ast.AST) -> bool:
    if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return any(child is each for each in parent.body)
    if isinstance(parent, ast.Lambda):
        return child is parent.body
    return True


def unknown_among(meanings: Meanings) -> bool:
    """Whether something may be meant that is not known."""
    return UNKNOWN in meanings

"""One file of Python code, and what a check can ask of it."""

from __future__ import annotations

import ast
import builtins
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

from everybit.source import attributes, self_attributes
from everybit.source.calls import Argument, CallSite, read_calls
from everybit.source.flags import read_flags
from everybit.source.meaning import UNKNOWNS, Defined, External, Meanings, Package
from everybit.source.origins import origins_of, returns_of
from everybit.source.reaching import Flow
from everybit.source.resolving import Resolver
from everybit.source.scopes import SCOPES, Scope, read_scopes, start_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from everybit.source.entries import Entries
    from everybit.source.leading import Wanted
    from everybit.source.meaning import FunctionNode
    from everybit.source.project import Project

_BUILTINS: Final = frozenset(dir(builtins))
_Node = TypeVar("_Node", bound=ast.AST)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClassInfo:
    """A class that the file defines.

    Attributes:
        node: Its definition.
        name: Its dotted name in the project.
        bases: The dotted names of all its bases that are known, those of its bases too.
        methods: `{name: definition}` of its own body.
    """

    node: ast.ClassDef
    name: str
    bases: tuple[str, ...]
    methods: dict[str, ast.FunctionDef | ast.AsyncFunctionDef]

    def is_a(self, *names: str) -> bool:
        """Return whether one of these dotted names is among its bases."""
        return any(name in self.bases for name in names)


class Module:
    """A parsed file.

    Args:
        path: As findings name it.
        text: The source; of a notebook, its cells joined and its magics blanked.
        tree: The syntax tree.
        project: Where its imports are looked for.
        name: Its dotted name in the project.
        magics: Of a notebook: the lines that are blanked, by their number in `text`.
    """

    def __init__(
        self,
        *,
        path: str,
        text: str,
        tree: ast.Module,
        project: Project,
        name: str,
        magics: Sequence[tuple[int, str]] = (),
    ) -> None:
        self.path = path
        self.text = text
        self.tree = tree
        self.project = project
        self.name = name
        self.magics = magics
        self.resolver = Resolver(self)
        self._self_assigned: dict[ast.ClassDef, dict[str, list[ast.expr | None]]] = {}
        self._self_changed: dict[ast.ClassDef, dict[str, list[ast.AST]]] = {}
        self._scope_of: dict[ast.AST, Scope] = {}
        self._calls: dict[Wanted | None, tuple[CallSite, ...]] = {}
        self._nodes: dict[tuple[type, ...], tuple[Any, ...]] = {}
        #: What attributes of `self` hold that are changed in place, by their class and name.
        self.held: dict[tuple[ast.ClassDef | None, str], Entries] = {}
        #: What names mean that star imports bring.
        self.starred_names: dict[str, Meanings] = {}
        self._returns: dict[ast.AST, tuple[ast.expr, ...]] = {}
        self._within: dict[ast.AST, list[ast.Call]] | None = None

    # ---- what a check asks ------------------------------------------------------------------

    def resolve(self, node: ast.expr) -> str | None:
        """Return the dotted name that an expression means, None where it is not known.

        Followed through imports, aliases, assignments, `functools.partial`, `getattr` with a
        constant, attributes of `self` and star imports. `()` stands for the result of a call:
        `torch.amp.GradScaler().unscale_`. Where it may be one of several, the first.
        """
        names = self.resolve_all(node)
        return names[0] if names else None

    def resolve_all(self, node: ast.expr) -> tuple[str, ...]:
        """Return all dotted names that an expression may mean."""
        found = self.resolver.meanings(node)
        named = (m.name for m in found if isinstance(m, External | Defined | Package))
        return tuple(dict.fromkeys(named))

    def constants(self, node: ast.expr) -> Argument:
        """Return the constants that an expression may be."""
        return Argument.of(self.resolver.meanings(node), node=node)

    def calls(self, through: Wanted | None = None) -> Sequence[CallSite]:
        """Return the calls, in the order of the text; one site for each name a call may mean.

        Args:
            through: Add, for a call of a function of the project that hands its arguments on to
                a known function, a site of that one with these arguments, where it is wanted.
        """
        if through not in self._calls:
            self._calls[through] = tuple(read_calls(self, self.call_nodes, through))
        return self._calls[through]

    def definitions(self, node: ast.expr) -> tuple[ast.expr, ...]:
        """Return the expressions of this file that a name stands for: the call that made it."""
        return tuple(value for module, value in self.origins(node) if module is self)

    @cached_property
    def call_nodes(self) -> tuple[ast.Call, ...]:
        """All calls, in the order of the text."""
        return self.nodes(ast.Call)

    @cached_property
    def flags(self) -> dict[str, Meanings]:
        """What the file's own command line flags can be, by the name of their value."""
        return read_flags(self)

    @cached_property
    def functions(self) -> tuple[FunctionNode, ...]:
        """All functions, methods and lambdas, in the order of the text."""
        found = [
            node
            for node in self.scopes
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        ]
        return tuple(found)

    @cached_property
    def classes(self) -> tuple[ClassInfo, ...]:
        """All classes, in the order of the text."""
        return tuple(
            ClassInfo(
                node=node,
                name=self.qualified(node),
                bases=tuple(dict.fromkeys(_bases(Defined(self, node), 0))),
                methods={
                    each.name: each
                    for each in node.body
                    if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
                },
            )
            for node in self.scopes
            if isinstance(node, ast.ClassDef)
        )

    @property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """Return every node's parent."""
        return self._read[1]

    @cached_property
    def flow(self) -> Flow:
        """Which bindings reach which places."""
        return Flow(self.parents)

    def nodes(self, *kinds: type[_Node]) -> tuple[_Node, ...]:
        """Return all nodes of these kinds, in the order of the text."""
        if kinds not in self._nodes:
            found = [node for node in self.parents if isinstance(node, kinds)]
            self._nodes[kinds] = tuple(sorted(found, key=start_of))
        return self._nodes[kinds]

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield what a node lies in, from its parent outwards."""
        parents = self.parents
        while (parent := parents.get(node)) is not None:
            yield parent
            node = parent

    def enclosing(self, node: ast.AST, *kinds: type[_Node]) -> _Node | None:
        """Return the nearest node of these kinds that a node lies in, None where there is none."""
        return next((each for each in self.ancestors(node) if isinstance(each, kinds)), None)

    def statement(self, node: ast.AST) -> ast.stmt:
        """Return the statement that a node is, or is part of."""
        if isinstance(node, ast.stmt):
            return node
        found = self.enclosing(node, ast.stmt)
        if found is None:
            raise ValueError("a module is in no statement")
        return found

    def source(self, node: ast.AST) -> str:
        """Return the text of a node."""
        first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", None)
        if not first or last is None:
            return ""
        begin, end = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", 0) or 0
        lines = self._lines[first - 1 : last]
        lines[-1] = lines[-1][:end]
        lines[0] = lines[0][begin:]
        return b"".join(lines).decode("utf-8", "replace")

    def qualified(self, node: ast.AST) -> str:
        """Return the dotted name of a function or class: `pkg.mod.Class.method`."""
        words = [getattr(node, "name", "<lambda>")]
        words += [
            getattr(each, "name", "<lambda>")
            for each in self.ancestors(node)
            if isinstance(each, SCOPES[1:5])
        ]
        return ".".join([self.name, *reversed(words)])

    # ---- what the resolution asks -----------------------------------------------------------

    @cached_property
    def _lines(self) -> list[bytes]:
        """The lines with their ends, in UTF-8, as the tree counts columns."""
        text = self.text.encode("utf-8", "replace")
        return re.split(rb"(?<=\n)|(?<=\r)(?!\n)", text)

    @cached_property
    def _read(self) -> tuple[dict[ast.AST, Scope], dict[ast.AST, ast.AST]]:
        return read_scopes(self.tree)

    @property
    def scopes(self) -> dict[ast.AST, Scope]:
        """Return the scope that each scope's node opens."""
        return self._read[0]

    @property
    def top(self) -> Scope:
        """Return the scope of the module."""
        return self.scopes[self.tree]

    def scope_of(self, node: ast.AST) -> Scope:
        """Return the scope that an expression is evaluated in."""
        if node not in self._scope_of:
            self._scope_of[node] = self.resolver.scope_around(node)
        return self._scope_of[node]

    def holder_of(self, node: ast.Name) -> tuple[Scope | None, bool]:
        """Return the scope that binds a name as seen from a place, and whether that is its own."""
        scope: Scope | None = self.scope_of(node)
        first = scope
        own = True
        while scope is not None:
            visible = scope is first or not isinstance(scope.node, ast.ClassDef)
            declared = scope.outer.get(node.id) == "global"
            if declared:
                scope, own = scope.module_scope, False
                return (scope, own) if node.id in scope.bindings else (None, False)
            if visible and node.id in scope.bindings:
                return scope, own
            if isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                own = False
            scope = scope.parent
        return None, False

    def origins(self, node: ast.expr) -> tuple[tuple[Module, ast.expr], ...]:
        """Return the expressions that a name stands for, each with the file it stands in."""
        return origins_of(self, node)

    def returns(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[ast.expr, ...]:
        """Return the values that a function returns; nothing for a generator."""
        if node not in self._returns:
            self._returns[node] = returns_of(node)
        return self._returns[node]

    def calls_within(self, function: FunctionNode) -> tuple[ast.Call, ...]:
        """Return the calls in a function's body, those of functions inside it too."""
        if self._within is None:
            self._within = {}
            for node in self.call_nodes:
                for each in self.ancestors(node):
                    if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                        self._within.setdefault(each, []).append(node)
        return tuple(self._within.get(function, ()))

    def self_assignments(self, node: ast.ClassDef) -> dict[str, list[ast.expr | None]]:
        """Return what the methods of a class assign to attributes of `self`."""
        if node not in self._self_assigned:
            self._self_assigned[node] = self_attributes.assigned(node)
        return self._self_assigned[node]

    def self_changes(self, node: ast.ClassDef) -> dict[str, list[ast.AST]]:
        """Return where the methods of a class change what attributes of `self` hold, in place."""
        if node not in self._self_changed:
            self._self_changed[node] = self_attributes.changed(node)
        return self._self_changed[node]

    def is_builtin(self, name: str) -> bool:
        """Return whether Python itself defines a name."""
        return name in _BUILTINS

    def parsed_annotation(self, text: str, node: ast.AST) -> Meanings:
        """Return what an annotation in quotes declares."""
        words = text.strip().split(".")
        if len(text) > 200 or not all(word.isidentifier() for word in words):
            return UNKNOWNS
        found = self.resolver.look_up(words[0], self.scope_of(node), None)
        for word in words[1:]:
            found = tuple(m for each in found for m in attributes.attribute(each, word))
        return tuple(attributes.result(m) for m in found if isinstance(m, External | Defined))


def _bases(owner: Defined, depth: int) -> Iterator[str]:
    if depth > 12 or not isinstance(owner.node, ast.ClassDef):
        return
    for base in owner.node.bases:
        target = base.value if isinstance(base, ast.Subscript) else base
        for meaning in owner.module.resolver.meanings(target):
            if isinstance(meaning, External | Defined):
                yield meaning.name
            if isinstance(meaning, Defined):
                yield from _bases(meaning, depth + 1)

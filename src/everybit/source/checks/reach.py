"""Which code a loop can reach: the functions that it calls, in its file by their short names."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from everybit.source.checks.flow import inside, last_word, words_of
from everybit.source.meaning import Defined

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator

    from everybit.source.checks.flow import FunctionNode
    from everybit.source.module import Module

_DEPTH: Final = 4
#: Functions followed from one place; honest code takes a few dozen.
_MAX_FUNCTIONS: Final = 400
#: Nodes looked at for all questions about one file.
_MAX_NODES: Final = 3_000_000


class Reach:
    """The functions of one module by name, and what can be reached from a piece of code.

    Names are followed without their objects (`x.step()` reaches each `step` of the file): that is
    meant for questions whose answer silences a rule. `sure=True` follows only plain names and
    methods of `self`, for questions whose answer makes a rule speak.

    Args:
        module: The module.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self._left = _MAX_NODES
        self._others: dict[Module, Reach] = {}
        self._calls: dict[str, list[ast.Call]] = {}
        self._functions: dict[str, list[FunctionNode]] = {}
        for node in inside([module.tree], nested=True):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._functions.setdefault(node.name, []).append(node)
            elif isinstance(node, ast.ClassDef):
                self._add_constructor(node)

    def _add_constructor(self, node: ast.ClassDef) -> None:
        for each in node.body:
            if isinstance(each, ast.FunctionDef) and each.name in ("__init__", "__call__"):
                self._functions.setdefault(node.name, []).append(each)

    def functions(self, name: str) -> list[FunctionNode]:
        """Return the functions of the module with this name."""
        return self._functions.get(name, [])

    def nodes(self, start: ast.AST | Iterable[ast.AST], *, sure: bool = False) -> Iterator[ast.AST]:
        """Yield all nodes of a piece of code and of the functions it reaches, each once."""
        layer = [start] if isinstance(start, ast.AST) else list(start)
        seen: set[int] = set(map(id, layer))
        for _ in range(_DEPTH):
            following: list[ast.AST] = []
            for node in inside(layer, nested=not sure):
                self._left -= 1
                if self._left < 0:
                    return
                yield node
                for function in self._from(node, sure=sure):
                    if id(function) not in seen and len(seen) < _MAX_FUNCTIONS:
                        seen.add(id(function))
                        following.append(function)
            layer = following

    def _from(self, node: ast.AST, *, sure: bool) -> list[FunctionNode]:
        if isinstance(node, ast.Call):
            on_self = isinstance(node.func, ast.Attribute) and (
                isinstance(node.func.value, ast.Name) and node.func.value.id == "self"
            )
            if sure and not on_self and not isinstance(node.func, ast.Name):
                return []
            return self.functions(last_word(node.func))
        # A function that is only named (a closure, a callback) is called by whoever gets it.
        if not sure and isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            return self.functions(node.id)
        return []

    def any(self, start: ast.AST | Iterable[ast.AST], test: Callable[[ast.AST], bool]) -> bool:
        """Whether a test holds for a node that can be reached, in other files too.

        A file too large to be followed is answered with yes: then a rule says nothing.
        """
        elsewhere: dict[ast.AST, Module] = {}
        for node in self.nodes(start):
            if test(node):
                return True
            if isinstance(node, ast.Call) and node in self.module.parents:
                for meaning in self.module.resolver.meanings(node.func):
                    if isinstance(meaning, Defined) and meaning.module is not self.module:
                        elsewhere[meaning.node] = meaning.module
        return self._left < 0 or any(
            test(node)
            for function, module in elsewhere.items()
            for node in self._other(module).nodes(_called_part(function))
        )

    def _other(self, module: Module) -> Reach:
        if module not in self._others:
            self._others[module] = Reach(module)
        return self._others[module]

    def speaks(self, start: ast.AST | Iterable[ast.AST], pattern: re.Pattern[str]) -> bool:
        """Whether a word that matches occurs in what can be reached.

        Names, attributes, keywords and short texts (`getattr(x, "zero_grad")`) count.
        """
        return self.any(start, lambda node: any(map(pattern.search, words_of(node))))

    def callers(self, function: FunctionNode) -> list[ast.Call]:
        """Return the calls in the module of a function with this one's name."""
        if not self._calls:
            for call in self.module.call_nodes:
                self._calls.setdefault(last_word(call.func), []).append(call)
        return self._calls.get(function.name, [])


def _called_part(node: ast.AST) -> list[ast.AST]:
    """Return what runs when something is called: of a class, its constructor and `__call__`."""
    if isinstance(node, ast.ClassDef):
        return [
            each
            for each in node.body
            if isinstance(each, ast.FunctionDef) and each.name in ("__init__", "__call__")
        ]
    return [node]

"""SRC314: a loop with a backward pass and an optimizer step in which no gradient is cleared."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Certainty
from everybit.source.checks.flow import (
    Loop,
    body_around,
    bound_in,
    inside,
    loops_around,
    names_in,
    words_of,
    written,
)
from everybit.source.checks.reach import Reach
from everybit.source.checks.training import (
    CLEARS,
    Sureness,
    backward_of,
    clears_by_hand,
    stepped,
)
from everybit.source.hit import Hit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.source.module import Module

RULE_ID: Final = "SRC314"
WORDS: Final = ("backward",)
#: A loop's backward pass and step are looked for in its own file.
NEEDS: Final = ("backward", r"\bstep\b", r"(?:\b|\\n)(?:for|while)\b")
#: Calls of one function that are looked at.
_MAX_CALLERS: Final = 32


def check(module: Module) -> Iterator[Hit]:
    """Yield one hit for each optimizer step whose gradients are never cleared."""
    loops = _Loops(module)
    for node in module.call_nodes:
        found = stepped(module, node)
        if found is None:
            continue
        optimizer, sure = found
        if node.keywords or (node.args and node.args[0] is not optimizer):
            continue  # a closure does the work
        for loop, lexical in loops.repeating(node, optimizer):
            if not lexical and sure is not Sureness.PROVEN:
                continue
            hit = _judge(loops, node, optimizer, loop)
            if hit is not None:
                yield hit
                break


class _Loops:
    """What is known of each loop of a file, asked once.

    Args:
        module: The file.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.reach = Reach(module)
        self._bound: dict[Loop, set[str]] = {}
        self._backward: dict[tuple[Loop, bool], ast.Call | None] = {}
        self._cleared: dict[Loop, bool] = {}
        self._elsewhere: dict[ast.AST, bool] = {}
        self._direct: dict[Loop, bool] = {}
        self._clearing = [
            node
            for node in module.nodes(ast.Attribute, ast.Name, ast.keyword, ast.Assign, ast.Call)
            if _clears(node)
        ]

    def bound(self, loop: Loop) -> set[str]:
        """Return the names that a loop binds each round."""
        if loop not in self._bound:
            self._bound[loop] = bound_in(loop)
        return self._bound[loop]

    def backward(self, loop: Loop, *, followed: bool) -> ast.Call | None:
        """Return the first backward pass in a loop, or in what it surely calls."""
        key = (loop, followed)
        if key not in self._backward:
            nodes = self.reach.nodes([loop], sure=True) if followed else inside([loop])
            self._backward[key] = backward_of(nodes)
        return self._backward[key]

    def cleared(self, loop: Loop) -> bool:
        """Whether anything that a loop reaches clears gradients."""
        if loop not in self._cleared:
            self._cleared[loop] = self.reach.any([loop], _clears)
        return self._cleared[loop]

    def cleared_elsewhere(self, function: ast.AST) -> bool:
        """Whether code outside of a function clears: then it may do so around its loops.

        What stands in the same function before the loop is seen, and happens once only.
        """
        if function not in self._elsewhere:
            self._elsewhere[function] = any(
                node is not function and function not in self.module.ancestors(node)
                for node in self._clearing
            )
        return self._elsewhere[function]

    def cleared_directly(self, loop: Loop) -> bool:
        """Whether a loop clears in its own body, and nothing that it calls does."""
        if loop not in self._direct:
            here = {id(node) for node in inside([loop]) if _clears(node)}
            self._direct[loop] = bool(here) and not any(
                _clears(node) and id(node) not in here for node in self.reach.nodes([loop])
            )
        return self._direct[loop]

    def repeating(self, step: ast.Call, optimizer: ast.expr) -> Iterator[tuple[Loop, bool]]:
        """Yield the widest loop that repeats a step of one optimizer, or the loops that call it."""
        around = loops_around(self.module, step)
        used = names_in(optimizer) | {written(optimizer) or ""}
        widest = None
        for loop in around:
            if self.bound(loop) & used:
                break
            widest = loop
        if widest is not None:
            yield widest, True
        if around:
            return
        function = body_around(self.module, step)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for call in self.reach.callers(function)[:_MAX_CALLERS]:
                for loop in loops_around(self.module, call)[-1:]:
                    yield loop, False


def _judge(loops: _Loops, step: ast.Call, optimizer: ast.expr, loop: Loop) -> Hit | None:
    module = loops.module
    backward = loops.backward(loop, followed=True)
    if backward is None:
        return None
    if not loops.cleared(loop) and not loops.cleared_elsewhere(body_around(module, step)):
        return _hit(module, step, optimizer, backward, loop, "never cleared in the loop")
    inner = _innermost(loops, step, optimizer)
    if inner is None or inner is loop:
        return None
    backward = loops.backward(inner, followed=False)
    if backward is None or loops.cleared(inner) or not loops.cleared_directly(loop):
        return None
    return _hit(module, step, optimizer, backward, inner, "cleared outside of the loop only")


def _innermost(loops: _Loops, step: ast.Call, optimizer: ast.expr) -> Loop | None:
    """Return the innermost loop around a step that happens in each round of it."""
    around = loops_around(loops.module, step)
    used = names_in(optimizer) | {written(optimizer) or ""}
    if not around or loops.bound(around[0]) & used:
        return None
    child: ast.AST = step
    while (parent := loops.module.parents[child]) is not around[0]:
        if isinstance(parent, ast.If | ast.Try | ast.ExceptHandler):
            return None
        child = parent
    return around[0]


def _clears(node: ast.AST) -> bool:
    return clears_by_hand(node) or any(CLEARS.search(word) for word in words_of(node))


def _hit(
    module: Module,
    step: ast.Call,
    optimizer: ast.expr,
    backward: ast.Call,
    loop: Loop,
    what: str,
) -> Hit:
    name = written(optimizer) or module.source(optimizer)
    return Hit(
        rule=RULE_ID,
        node=step,
        message=(
            f"`{name}.step()` in the loop of line {loop.lineno}: the gradients of `{name}` are "
            f"{what}, so each update is made from the sum of all steps so far"
        ),
        evidence={
            "optimizer": name,
            "backward_line": backward.lineno,
            "step_line": step.lineno,
            "loop_line": loop.lineno,
        },
        remedy=f"Call `{name}.zero_grad()` once for each update, before `backward`.",
        certainty=Certainty.STRONG,
    )

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
    from collections.abc import Iterable, Iterator

    from everybit.source.module import Module

RULE_ID: Final = "SRC314"
WORDS: Final = ("backward",)


def check(module: Module) -> Iterator[Hit]:
    """Yield one hit for each optimizer step whose gradients are never cleared."""
    reach = Reach(module)
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call):
            continue
        found = stepped(module, node)
        if found is None:
            continue
        optimizer, sure = found
        if node.keywords or (node.args and node.args[0] is not optimizer):
            continue  # a closure does the work
        for loop, lexical in _loops(reach, node, optimizer):
            hit = _judge(reach, node, optimizer, loop)
            if hit is not None and (lexical or sure is Sureness.PROVEN):
                yield hit
                break


def _loops(reach: Reach, step: ast.Call, optimizer: ast.expr) -> Iterator[tuple[Loop, bool]]:
    """Yield the widest loop that repeats a step of one optimizer, or the loops that call it."""
    own = _widest(loops_around(reach.module, step), optimizer)
    if own is not None:
        yield own, True
        return
    function = body_around(reach.module, step)
    if loops_around(reach.module, step) or not isinstance(
        function, ast.FunctionDef | ast.AsyncFunctionDef
    ):
        return
    for call in reach.callers(function):
        around = loops_around(reach.module, call)
        if around:
            yield around[-1], False


def _widest(loops: list[Loop], optimizer: ast.expr) -> Loop | None:
    """Return the outermost loop in which the optimizer stays the same."""
    used = names_in(optimizer) | {written(optimizer) or ""}
    found = None
    for loop in loops:
        if bound_in(loop) & used:
            break
        found = loop
    return found


def _judge(reach: Reach, step: ast.Call, optimizer: ast.expr, loop: Loop) -> Hit | None:
    module = reach.module
    function = body_around(module, step)
    backward = backward_of(reach.nodes([loop], sure=True))
    if backward is None:
        return None
    if not _cleared(reach, [loop]) and not _cleared_elsewhere(reach, function):
        return _hit(module, step, optimizer, backward, loop, "never cleared in the loop")
    inner = _innermost(module, step, optimizer)
    if inner is None or inner is loop or backward_of(inside([inner])) is None:
        return None
    here = [node for node in inside([loop]) if _clears(node)]
    if here and not _cleared(reach, [inner]) and _only_direct(reach, loop, here):
        backward = backward_of(inside([inner])) or backward
        return _hit(module, step, optimizer, backward, inner, "cleared outside of the loop only")
    return None


def _innermost(module: Module, step: ast.Call, optimizer: ast.expr) -> Loop | None:
    """Return the innermost loop around a step that happens in each round of it."""
    loops = loops_around(module, step)
    if not loops or bound_in(loops[0]) & (names_in(optimizer) | {written(optimizer) or ""}):
        return None
    child: ast.AST = step
    while (parent := module.parents[child]) is not loops[0]:
        if isinstance(parent, ast.If | ast.Try | ast.ExceptHandler):
            return None
        child = parent
    return loops[0]


def _clears(node: ast.AST) -> bool:
    return clears_by_hand(node) or any(CLEARS.search(word) for word in words_of(node))


def _cleared(reach: Reach, nodes: Iterable[ast.AST]) -> bool:
    start = list(nodes)
    return any(clears_by_hand(node) for node in reach.nodes(start)) or reach.speaks(start, CLEARS)


def _only_direct(reach: Reach, loop: Loop, here: list[ast.AST]) -> bool:
    """Whether the clearing that was seen is all that the loop reaches."""
    direct = set(map(id, here))
    return not any(_clears(node) and id(node) not in direct for node in reach.nodes([loop]))


def _cleared_elsewhere(reach: Reach, function: ast.AST) -> bool:
    """Whether code elsewhere in the file clears: then it may do so around this loop.

    What stands in the same function before the loop is seen, and happens once only.
    """
    own = set(map(id, inside([function], nested=True)))
    return any(
        _clears(node) and id(node) not in own
        for node in inside([reach.module.tree], nested=True)
        if not isinstance(node, ast.Constant)
    )


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

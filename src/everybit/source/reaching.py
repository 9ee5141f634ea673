"""Which bindings of a name can reach a place, by the shape of the code between them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from everybit.source.scopes import END, SCOPES, Binding, Place, start_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: `(compound statement, which of its blocks)`, from the scope inwards.
Branches = tuple[tuple[ast.AST, str], ...]

_ENDS: Final = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)
_BRANCHING: Final = (*_LOOPS, ast.If, ast.Try, ast.TryStar, ast.ExceptHandler, ast.match_case)


def branches_of(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> Branches:
    """Return the blocks that a node lies in, within its scope; `with` blocks always run."""
    found: list[tuple[ast.AST, str]] = []
    while (parent := parents.get(node)) is not None:
        if isinstance(parent, _BRANCHING) and (block := _block(parent, node)):
            found.append((parent, block))
        if isinstance(parent, SCOPES):
            break
        node = parent
    return tuple(reversed(found))


def _block(parent: ast.AST, child: ast.AST) -> str:
    """Return the name of the block of a compound statement that a child lies in."""
    for name in ("body", "orelse", "finalbody", "handlers"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and any(each is child for each in block):
            if name == "handlers":
                return ""  # the handler is a block of its own
            if name == "finalbody" or (name == "orelse" and isinstance(parent, ast.Try)):
                return "" if name == "finalbody" else "body"
            return name
    return ""


def reaching(
    bindings: Sequence[Binding], use: ast.AST | None, parents: Mapping[ast.AST, ast.AST]
) -> list[Binding]:
    """Return the bindings that a use may see, the latest first.

    Args:
        bindings: All of one name in one scope, in the order of the text.
        use: The place; None for the end of the scope (a function called later).
        parents: Of every node.
    """
    if len(bindings) == 1 and bindings[0].place == (0, 0):
        return list(bindings)
    place: Place = start_of(use) if use is not None else END
    around = branches_of(use, parents) if use is not None else ()
    inside = dict(around)
    found: list[Binding] = []
    seen: dict[ast.AST, set[str]] = {}
    for binding in reversed(bindings):
        branches = branches_of(binding.node, parents)
        if binding.place > place:
            if any(node in inside and isinstance(node, _LOOPS) for node, _ in branches):
                found.append(binding)  # the round before
            continue
        if _excluded(branches, inside, parents) or _leaves(branches, inside):
            continue
        found.append(binding)
        own = [(node, block) for node, block in branches if inside.get(node) != block]
        if not own or _complete(own, seen, parents):
            break
    return found


def _excluded(
    branches: Branches, inside: Mapping[ast.AST, str], parents: Mapping[ast.AST, ast.AST]
) -> bool:
    """Whether a binding lies in the other branch of an `if`, or in another handler or case."""
    for node, block in branches:
        if isinstance(node, ast.If) and inside.get(node, block) != block:
            return True
        if isinstance(node, ast.ExceptHandler | ast.match_case) and node not in inside:
            around = parents.get(node)
            if any(parents.get(other) is around for other in inside if type(other) is type(node)):
                return True
    return False


def _leaves(branches: Branches, inside: Mapping[ast.AST, str]) -> bool:
    """Whether the block of a binding ends by leaving, and the use is not in that block."""
    return any(
        _ends(getattr(node, block, None)) for node, block in branches if inside.get(node) != block
    )


def _ends(body: list[ast.stmt] | None) -> bool:
    return body is not None and bool(body) and isinstance(body[-1], _ENDS)


def _complete(
    own: list[tuple[ast.AST, str]],
    seen: dict[ast.AST, set[str]],
    parents: Mapping[ast.AST, ast.AST],
) -> bool:
    """Whether every way through the statement around a binding binds the name by now."""
    for node, block in reversed(own):
        if isinstance(node, ast.If):
            seen.setdefault(node, set()).add(block)
            ways = {"body": node.body, "orelse": node.orelse}
            if not all(way in seen[node] or _ends(body) for way, body in ways.items()):
                return False
        elif isinstance(node, ast.Try | ast.ExceptHandler):
            whole = node if isinstance(node, ast.Try) else parents.get(node)
            if not isinstance(whole, ast.Try):
                return False
            name = block if whole is node else str(whole.handlers.index(node))  # type: ignore[arg-type]
            seen.setdefault(whole, set()).add(name)
            handled = all(
                str(index) in seen[whole] or _ends(handler.body)
                for index, handler in enumerate(whole.handlers)
            )
            if not handled or not seen[whole] & {"body"}:
                return False
        else:
            return False
    return True

"""Which bindings of a name can reach a place, by the shape of the code between them."""

from __future__ import annotations

import ast
from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from everybit.source.scopes import END, SCOPES, Binding, Place, start_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: `(compound statement, which of its blocks)`, from the scope inwards.
Branches = tuple[tuple[ast.AST, str], ...]

_ENDS: Final = (ast.Return, ast.Raise, ast.Continue, ast.Break)
#: Bindings further down in a loop, and of one name at all, that are looked at.
_MAX_LATER: Final = 64
_MAX_FOUND: Final = 64
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)
_BRANCHING: Final = (*_LOOPS, ast.If, ast.Try, ast.TryStar, ast.ExceptHandler, ast.match_case)


class Flow:
    """The blocks that the nodes of one file lie in.

    Args:
        parents: Of every node.
    """

    def __init__(self, parents: Mapping[ast.AST, ast.AST]) -> None:
        self._parents = parents
        self._known: dict[ast.AST, Branches] = {}
        self._blocks: dict[ast.AST, dict[ast.AST, str]] = {}

    def branches(self, node: ast.AST) -> Branches:
        """Return the blocks that a node lies in, within its scope; `with` blocks always run."""
        waiting: list[ast.AST] = []
        found: Branches = ()
        while True:
            known = self._known.get(node)
            if known is not None:
                found = known
                break
            waiting.append(node)
            parent = self._parents.get(node)
            if parent is None or isinstance(parent, SCOPES):
                break
            node = parent
        # The outermost has none, except that it may be a branching statement of its scope.
        for each in reversed(waiting):
            parent = self._parents.get(each)
            if isinstance(parent, _BRANCHING) and (block := self._block(parent, each)):
                found = (*found, (parent, block))
            if isinstance(each, ast.stmt | ast.ExceptHandler | ast.match_case):
                self._known[each] = found
        return found

    def _block(self, parent: ast.AST, child: ast.AST) -> str:
        """Return the name of the block of a compound statement that a child lies in."""
        if parent not in self._blocks:
            self._blocks[parent] = {
                each: name for name in ("body", "orelse") for each in getattr(parent, name, ())
            }
        name = self._blocks[parent].get(child, "")
        # A handler is a block of its own; `else` of a `try` goes on from its body.
        return "body" if name and isinstance(parent, ast.Try | ast.TryStar) else name

    def reaching(self, bindings: Sequence[Binding], use: ast.AST | None) -> list[Binding]:
        """Return the bindings that a use may see, the latest first.

        Args:
            bindings: All of one name in one scope, in the order of the text.
            use: The place; None for the end of the scope (a function called later).
        """
        if not bindings:
            return []
        place: Place = start_of(use) if use is not None else END
        last = bisect_right(bindings, place, key=lambda binding: binding.place)
        elsewhere = [binding for binding in bindings if binding.elsewhere]
        if elsewhere:
            bindings = [binding for binding in bindings if not binding.elsewhere]
            return [*elsewhere[:_MAX_FOUND], *self.reaching(bindings, use)]
        if last and not self.branches(bindings[last - 1].node) and last == len(bindings):
            return [bindings[last - 1]]
        inside = dict(self.branches(use)) if use is not None else {}
        loops = {node for node in inside if isinstance(node, _LOOPS)}
        found: list[Binding] = []
        if loops:
            found += [  # the round before
                binding
                for binding in bindings[last : last + _MAX_LATER]
                if any(node in loops for node, _ in self.branches(binding.node))
            ]
        seen: dict[ast.AST, set[str]] = {}
        for binding in reversed(bindings[:last]):
            branches = self.branches(binding.node)
            if _excluded(branches, inside, self._parents) or _leaves(branches, inside):
                continue
            found.append(binding)
            own = [(node, block) for node, block in branches if inside.get(node) != block]
            if not own or len(found) > _MAX_FOUND or _complete(own, seen, self._parents):
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

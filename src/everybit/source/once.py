"""A fault inside a wrapper is told in the wrapper, not at each of its calls."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from everybit.source.calls import read_calls
from everybit.source.wrapping import ANY_CODE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.source.hit import Hit
    from everybit.source.module import Module
    from everybit.source.registry import Check


def without_wrapped(module: Module, hits: list[Hit], checks: Sequence[Check]) -> list[Hit]:
    """Return the hits without those of calls through a wrapper that is hit itself.

    Args:
        module: The file.
        hits: Its hits.
        checks: Those that found them.
    """
    calls = {hit.node for hit in hits if isinstance(hit.node, ast.Call)}
    if not calls:
        return hits
    inner: dict[ast.AST, list[tuple[Module, ast.Call]]] = {}
    in_order = [node for node in module.call_nodes if node in calls]
    for site in read_calls(module, in_order, ANY_CODE):
        if site.inner is not None:
            inner.setdefault(site.node, []).append(site.inner)
    if not inner:
        return hits
    by_rule = {check.rule: check for check in checks}
    known: dict[tuple[str, Module], frozenset[ast.AST | None]] = {}

    def hit_nodes(rule: str, where: Module) -> frozenset[ast.AST | None]:
        key = (rule, where)
        if key not in known:
            found = hits if where is module else by_rule[rule].check(where)
            known[key] = frozenset(each.node for each in found if each.rule == rule)
        return known[key]

    return [
        hit
        for hit in hits
        if hit.node is None
        or not any(call in hit_nodes(hit.rule, where) for where, call in inner.get(hit.node, ()))
    ]

"""Calls with a name to judge them by, also where nothing tells whose method is called."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from everybit.source.calls import CallSite
from everybit.source.checks.inside_wrappers import LOADS
from everybit.source.meaning import Defined

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.source.module import Module

#: The head of a name whose owner is not known: `?.load_state`.
UNKNOWN_OWNER: Final = "?."


def sites(module: Module) -> Iterator[CallSite]:
    """Yield the calls of known functions, then those that only their words tell something of.

    These are methods whose owner is not known, and whatever else is given `weights_only`: a
    parameter, an item of a table, what a decorator returned. Functions of the project are followed
    to what they call and not yielded themselves.
    """
    named: set[ast.Call] = set()
    for site in module.calls(LOADS):
        if not site.name.endswith("()"):  # what a call returned is not known
            named.add(site.node)
        if site.wrapper or not is_of_project(site):
            yield site
    for node in module.call_nodes:
        if node not in named and (word := _word_of(node)):
            name = f"{UNKNOWN_OWNER}{word}"
            given = tuple(module.resolver.given(node))
            yield CallSite(module=module, node=node, name=name, sure=False, given=given)


def _word_of(call: ast.Call) -> str:
    """Return the word that tells what an unknown function does, empty where none does."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    if not any(keyword.arg == "weights_only" for keyword in call.keywords):
        return ""
    if isinstance(call.func, ast.Name):
        return call.func.id
    words = (
        each.attr if isinstance(each, ast.Attribute) else each.id
        for each in ast.walk(call.func)
        if isinstance(each, ast.Attribute | ast.Name)
    )
    return next((word for word in words if "load" in word.lower()), "").lower()


def calls_wrappers(module: Module) -> bool:
    """Return whether a file calls functions of other files that may load something for it."""
    return any(
        site.wrapper and site.inner[0] is not module for site in module.calls(LOADS) if site.inner
    )


def is_of_project(site: CallSite) -> bool:
    """Return whether a call is one of a function or class of the project."""
    return not site.indirect and any(
        isinstance(meaning, Defined) and meaning.name == site.name
        for meaning in site.module.resolver.meanings(site.node.func)
    )


def told(site: CallSite) -> str:
    """Return what is called, as people know it."""
    if not site.name.startswith(UNKNOWN_OWNER):
        return f"{site.name} (through {site.wrapper})" if site.wrapper else site.name
    text = " ".join(site.module.source(site.node.func).split())
    return text if 0 < len(text) <= 60 else site.name.removeprefix(UNKNOWN_OWNER)

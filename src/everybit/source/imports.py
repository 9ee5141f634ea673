"""What an import statement brings: a library's name, or a module of the project."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from everybit.source import attributes
from everybit.source.canonical import KNOWN_LIBRARIES, STAR_NAMES, canonical, top_level
from everybit.source.meaning import UNKNOWNS, External, Meanings, Package

if TYPE_CHECKING:
    from everybit.source.module import Module


def imported(module: Module, alias: ast.alias) -> Meanings:
    """Return what one name of an import statement means."""
    statement = module.parents.get(alias)
    if isinstance(statement, ast.Import):
        whole = alias.name if alias.asname else alias.name.partition(".")[0]
        return module_named(module, whole)
    if isinstance(statement, ast.ImportFrom):
        found: list[External | Package] = []
        for source in _source(module, statement):
            below = _below(module, source, alias.name)
            if below is not None:
                found.append(below)
            else:
                return attributes.attribute(source, alias.name)
        return tuple(found) or UNKNOWNS
    return UNKNOWNS


def _below(module: Module, source: External | Package, name: str) -> Package | None:
    """Return the module that a package holds under a name, where the package binds no such name."""
    if not isinstance(source, Package):
        return None
    bound = source.module is not None and name in source.module.top.bindings
    if bound and source.module is not module:  # `from . import files` in the package itself
        return None
    return module.project.below(source, name)


def _source(module: Module, statement: ast.ImportFrom) -> list[External | Package]:
    if statement.level:
        found = module.project.relative(module, statement.level, statement.module or "")
        return [found] if found is not None else []
    meanings = module_named(module, statement.module or "")
    return [m for m in meanings if isinstance(m, External | Package)]


def module_named(module: Module, dotted: str) -> Meanings:
    """Return what a module's absolute name means."""
    if not dotted:
        return UNKNOWNS
    if top_level(dotted) not in KNOWN_LIBRARIES:
        found = module.project.find(module, dotted)
        if found is not None:
            return (found,)
    return (External(canonical(dotted)),)


def starred(module: Module, name: str) -> Meanings:
    """Return what a name means that nothing binds: a star import's, or a builtin.

    Star imports lead in circles and meet again: each file is asked once for a name, and the answer
    is remembered.

    Args:
        module: Where it is used.
        name: The name.
    """
    known = module.starred_names
    if name not in known:
        known[name] = _starred(module, name, {module})
    return known[name]


def _starred(module: Module, name: str, seen: set[Module]) -> Meanings:
    for statement in reversed(module.top.stars):
        for source in _source(module, statement):
            if isinstance(source, External):
                if name in STAR_NAMES.get(source.name, ()):
                    return (External(canonical(f"{source.name}.{name}")),)
            elif source.module is not None and source.module not in seen:
                seen.add(source.module)
                if name in source.module.top.bindings and not name.startswith("_"):
                    return attributes.attribute(source, name)
                inner = UNKNOWNS
                if source.module.top.stars:
                    inner = _starred(source.module, name, seen)
                if any(isinstance(m, External) and "." in m.name for m in inner):
                    return inner
    if module.top.stars and not module.is_builtin(name):
        return UNKNOWNS
    return (External(name),) if module.is_builtin(name) else UNKNOWNS

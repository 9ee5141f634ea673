"""What the items of dictionaries, tuples, lists and of a module's own namespace mean."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from everybit.source import attributes, imports
from everybit.source.meaning import UNKNOWNS, External, Literal, Meanings, joined
from everybit.source.origins import item_of

if TYPE_CHECKING:
    from everybit.source.resolving import Frame, Resolver

#: Items of one tuple, list or dictionary that a loop or an unknown key may give.
_MAX_ITEMS: Final = 64
_LOOKS_UP: Final = frozenset({"get", "pop", "setdefault", "__getitem__"})


def subscript(resolver: Resolver, node: ast.Subscript, frame: Frame | None) -> Meanings:
    """Return what `owner[key]` means."""
    from everybit.source.entries import entries_of

    key = resolver.meanings(node.slice, frame)
    text = _text(key)
    if text is None:
        return _item(resolver, node, key, frame)
    space = _namespace(resolver, node.value, text, frame)
    return space or entries_of(resolver.module, node.value, node, frame).get(text).meanings


def _text(key: Meanings) -> str | None:
    if len(key) == 1 and isinstance(key[0], Literal) and isinstance(key[0].value, str):
        return key[0].value
    return None


def _namespace(resolver: Resolver, owner: ast.expr, name: str, frame: Frame | None) -> Meanings:
    """Return what a name means in a namespace: `torch.__dict__`, `vars(torch)`, `sys.modules`."""
    match owner:
        case ast.Attribute(value=value, attr="__dict__"):
            return joined(*(attributes.attribute(m, name) for m in resolver.meanings(value, frame)))
        case ast.Call(func=ast.Name(id="vars"), args=[value]):
            return joined(*(attributes.attribute(m, name) for m in resolver.meanings(value, frame)))
        case ast.Call(func=ast.Name(id="globals"), args=[]):
            return resolver.look_up(name, resolver.module.top, None)
        case ast.Attribute(attr="modules") | ast.Name():
            if External("sys.modules") in resolver.meanings(owner, frame):
                return imports.module_named(resolver.module, name)
            return ()
        case _:
            return ()


def _item(resolver: Resolver, node: ast.Subscript, key: Meanings, frame: Frame | None) -> Meanings:
    """Return one item of what is written out; where the key is not known, any of a dictionary."""
    if len(key) == 1 and isinstance(key[0], Literal) and type(key[0].value) is int:
        index = key[0].value
        for value in resolver.module.definitions(node.value):
            elements = value.elts if isinstance(value, ast.Tuple | ast.List) else []
            if any(isinstance(each, ast.Starred) for each in elements):
                continue
            if -len(elements) <= index < len(elements):
                return resolver.meanings(elements[index])
        return UNKNOWNS
    return joined(_any_entry(resolver, node.value, node, frame), UNKNOWNS)


def _any_entry(resolver: Resolver, owner: ast.expr, use: ast.AST, frame: Frame | None) -> Meanings:
    """Return what any item of a dictionary may mean, as far as functions and modules go.

    Its constants are left out: which of them it is depends on the key.
    """
    from everybit.source.entries import entries_of

    found = entries_of(resolver.module, owner, use, frame).items.values()
    if len(found) > _MAX_ITEMS:
        return ()
    kept = (m for value in found for m in value.meanings if not isinstance(m, Literal))
    return joined(tuple(kept))


def looked_up(resolver: Resolver, node: ast.Call, frame: Frame | None) -> Meanings:
    """Return what a call of an unknown method means where it is a dictionary's: `d.get(key)`."""
    from everybit.source.entries import entries_of

    if not isinstance(node.func, ast.Attribute) or node.func.attr not in _LOOKS_UP:
        return UNKNOWNS
    if not 0 < len(node.args) < 3 or node.keywords:
        return UNKNOWNS
    owner = node.func.value
    other = resolver.meanings(node.args[1], frame) if len(node.args) > 1 else ()
    text = _text(resolver.meanings(node.args[0], frame))
    if text is None:
        return joined(_any_entry(resolver, owner, node, frame), other, UNKNOWNS)
    value = entries_of(resolver.module, owner, node, frame).get(text)
    if not value.absent:
        return value.meanings or UNKNOWNS
    return joined(value.meanings, other) or UNKNOWNS


def unpacked(resolver: Resolver, node: ast.expr, index: int) -> Meanings:
    """Return what a name means that one item of a call's result is bound to.

    It is among what is not known, unless every way through the functions gives such an item.
    """
    origins = resolver.module.origins(node)
    found = item_of(resolver.module, node, index)
    meant = [where.resolver.meanings(item) for where, item in found]
    return joined(*meant, () if found and len(found) == len(origins) else UNKNOWNS)


def each(resolver: Resolver, node: ast.expr) -> Meanings:
    """Return what the items of a tuple or list mean that is written out."""
    found: list[Meanings] = []
    for value in resolver.module.definitions(node):
        if not isinstance(value, ast.Tuple | ast.List | ast.Set) or len(value.elts) > _MAX_ITEMS:
            return UNKNOWNS
        found += [resolver.meanings(each) for each in value.elts]
    return joined(*found) or UNKNOWNS

"""What a dictionary holds under its text keys, followed through `dict()`, `|`, `update`."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from everybit.source.meaning import UNKNOWNS, Defined, External, Literal, Meanings, joined
from everybit.source.scopes import How, end_of, start_of

if TYPE_CHECKING:
    from everybit.source.module import Module
    from everybit.source.resolving import Frame
    from everybit.source.scopes import Scope

_MAX_DEPTH: Final = 12
#: More changes of one dictionary are not followed: what it holds is not known then.
_MAX_CHANGES: Final = 128
#: More dictionaries are not followed for one question.
_MAX_KNOWN: Final = 2_000
_COPIES: Final = ("copy.copy", "copy.deepcopy", "dict", "collections.OrderedDict")


@dataclass(frozen=True, slots=True)
class Value:
    """What is found under one key.

    Attributes:
        meanings: What it may be.
        absent: Whether the key may be missing.
        node: The expression, where there is one.
    """

    meanings: Meanings = ()
    absent: bool = False
    node: ast.expr | None = None

    def __or__(self, other: Value) -> Value:
        node = self.node if self.node is not None else other.node
        return Value(joined(self.meanings, other.meanings), self.absent or other.absent, node)


@dataclass(frozen=True, slots=True)
class Entries:
    """What a dictionary holds.

    Attributes:
        items: By key.
        open: Whether it may hold keys that are not known.
    """

    items: dict[str, Value] = field(default_factory=dict)
    open: bool = False

    def get(self, key: str) -> Value:
        """Return what is found under a key."""
        found = self.items.get(key)
        if found is not None:
            return found
        return Value(UNKNOWNS if self.open else (), absent=True)

    def over(self, other: Entries) -> Entries:
        """Return these entries with another's on top: `self | other`."""
        items = dict(self.items)
        if other.open:
            items = {key: value | Value(UNKNOWNS) for key, value in items.items()}
        for key, value in other.items.items():
            if value.absent:
                value = Value(value.meanings, node=value.node) | self.get(key)
            items[key] = value
        return Entries(items, self.open or other.open)

    def __or__(self, other: Entries) -> Entries:
        """Return the entries of one or of the other."""
        keys = dict.fromkeys([*self.items, *other.items])
        return Entries(
            {key: self.get(key) | other.get(key) for key in keys}, self.open or other.open
        )


OPEN: Final = Entries(open=True)


def entries_of(
    module: Module, node: ast.expr, use: ast.AST, frame: Frame | None = None, depth: int = 0
) -> Entries:
    """Return what an expression holds that is used as a dictionary.

    Args:
        module: Where it stands.
        node: The expression.
        use: The place where it is used.
        frame: The call that is being followed.
        depth: Steps taken so far.
    """
    following = module.project.following
    key = (node, use, frame)
    known = following.entries.get(key)
    if known is not None and known[0] <= depth:
        return known[1]
    if depth > _MAX_DEPTH or len(following.entries) > _MAX_KNOWN:
        return OPEN
    following.within += 1
    try:
        found = _entries(module, node, use, frame, depth)
        following.entries[key] = (depth, found)
    finally:
        following.within -= 1
        if not following.within:
            following.entries.clear()
    return found


def _entries(
    module: Module, node: ast.expr, use: ast.AST, frame: Frame | None, depth: int
) -> Entries:
    def again(each: ast.expr) -> Entries:
        return entries_of(module, each, use, frame, depth + 1)

    match node:
        case ast.Dict():
            return _written(module, node, use, frame, depth)
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            return again(left).over(again(right))
        case ast.IfExp(body=body, orelse=orelse):
            return again(body) | again(orelse)
        case ast.BoolOp(op=ast.Or(), values=values):
            found = again(values[0])
            for value in values[1:]:
                found = found | again(value)
            return found
        case ast.NamedExpr(value=value):
            return again(value)
        case ast.Call():
            return _called(module, node, use, frame, depth)
        case ast.Name():
            return _named(module, node, use, frame, depth)
        case ast.Attribute():
            return _attribute(module, node, depth)
        case _:
            return OPEN


def _attribute(module: Module, node: ast.Attribute, depth: int) -> Entries:
    """Return what an attribute may hold; one of `self` also by what its class does to it."""
    owner = module.enclosing(node, ast.ClassDef)
    changes = module.self_changes(owner).get(node.attr, []) if owner is not None else []
    if owner is None or not changes or not _is_self(module, node.value, owner):
        return _assigned(module, node, depth)
    key = (owner, node.attr)
    if key not in module.held:
        module.held[key] = OPEN  # while it is set from its own items
        found = _assigned(module, node, depth)
        for change in changes[:_MAX_CHANGES]:
            found = found | _after(module, change, found, None, depth + 1)
        module.held[key] = found if len(changes) <= _MAX_CHANGES else OPEN
    return module.held[key]


def _is_self(module: Module, node: ast.expr, owner: ast.ClassDef) -> bool:
    meant = module.resolver.meanings(node)
    return any(isinstance(m, Defined) and m.node is owner for m in meant)


def _assigned(module: Module, node: ast.Attribute, depth: int) -> Entries:
    return _any(
        [
            entries_of(where, value, value, None, depth + 1)
            for where, value in module.origins(node)
            if value is not node
        ]
    )


def _any(found: list[Entries]) -> Entries:
    if not found:
        return OPEN
    whole = found[0]
    for each in found[1:]:
        whole = whole | each
    return whole


def _written(
    module: Module, node: ast.Dict, use: ast.AST, frame: Frame | None, depth: int
) -> Entries:
    found = Entries()
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            found = found.over(entries_of(module, value, use, frame, depth + 1))
            continue
        meant = module.resolver.meanings(key, frame)
        text = meant[0].value if len(meant) == 1 and isinstance(meant[0], Literal) else None
        if isinstance(text, str):
            items = dict(found.items)
            items[text] = Value(module.resolver.meanings(value, frame), node=value)
            found = Entries(items, found.open)
        elif not isinstance(key, ast.Constant):
            found = Entries(found.items, open=True)
    return found


def _called(
    module: Module, node: ast.Call, use: ast.AST, frame: Frame | None, depth: int
) -> Entries:
    if isinstance(node.func, ast.Attribute) and node.func.attr == "copy" and not node.args:
        return entries_of(module, node.func.value, use, frame, depth + 1)
    meant = module.resolver.meanings(node.func, frame)
    names = [m.name for m in meant if isinstance(m, External)]
    if len(meant) == 1 and names and names[0] in _COPIES:
        found = Entries()
        for value in node.args[:1]:
            found = entries_of(module, value, use, frame, depth + 1)
        return found.over(_keywords(module, node, use, frame, depth))
    results = [
        entries_of(where, value, value, None, depth + 1)
        for where, value in module.origins(node)
        if value is not node
    ]
    return _any(results)


def _keywords(
    module: Module, node: ast.Call, use: ast.AST, frame: Frame | None, depth: int
) -> Entries:
    found = Entries()
    for keyword in node.keywords:
        if keyword.arg is None:
            found = found.over(entries_of(module, keyword.value, use, frame, depth + 1))
        else:
            value = Value(module.resolver.meanings(keyword.value, frame), node=keyword.value)
            found = found.over(Entries({keyword.arg: value}))
    return found


def _named(
    module: Module, node: ast.Name, use: ast.AST, frame: Frame | None, depth: int
) -> Entries:
    scope, own = module.holder_of(node)
    if scope is None:
        return _any(
            [
                entries_of(where, value, value, None, depth + 1)
                for where, value in module.origins(node)
                if value is not node
            ]
        )
    at = use if own else None
    bindings = module.flow.reaching(scope.bindings[node.id], at)
    found: list[Entries] = []
    since = min((binding.place for binding in bindings), default=(0, 0))
    for binding in bindings:
        if binding.how is How.ASSIGNED and binding.value is not None:
            found.append(entries_of(module, binding.value, binding.value, frame, depth + 1))
        elif binding.how is How.PARAMETER and isinstance(binding.node, ast.arg):
            found.append(_parameter(module, binding.node, binding.value, frame, depth))
        elif binding.how is How.IMPORTED:
            found += [
                entries_of(where, value, value, None, depth + 1)
                for where, value in module.origins(node)
                if value is not node
            ]
        else:
            found.append(OPEN)
    return _changed(module, scope, node.id, _any(found), since, at, frame, depth)


def _parameter(
    module: Module, arg: ast.arg, default: ast.expr | None, frame: Frame | None, depth: int
) -> Entries:
    function = module.parents[module.parents[arg]]
    if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        gathers = function.args.kwarg is arg
        if gathers and frame is not None and frame.function is function:
            return frame.keywords if frame.keywords is not None else OPEN
    if default is None:
        return OPEN
    return entries_of(module, default, default, None, depth + 1) | OPEN


def _changed(
    module: Module,
    scope: Scope,
    name: str,
    before: Entries,
    since: tuple[int, int],
    use: ast.AST | None,
    frame: Frame | None,
    depth: int,
) -> Entries:
    """Return the entries after what changes the dictionary in place, before its use."""
    changes = scope.changes.get(name, ())
    if len(changes) > _MAX_CHANGES:
        return OPEN
    found = before
    inside = dict(module.flow.branches(use)) if use is not None else {}
    for change in changes:
        if start_of(change) < since or (use is not None and end_of(change) > start_of(use)):
            continue
        after = _after(module, change, found, frame, depth)
        around = module.flow.branches(change)
        surely = all(inside.get(node) == block for node, block in around)
        found = after if surely else found | after
    return found


def _after(
    module: Module, change: ast.AST, before: Entries, frame: Frame | None, depth: int
) -> Entries:
    match change:
        case ast.Assign(targets=[ast.Subscript(slice=key)], value=value):
            return _set(module, before, key, value, frame)
        case ast.AugAssign(value=value):
            return before.over(entries_of(module, value, change, frame, depth + 1))
        case ast.Delete(targets=targets):
            for target in targets:
                if isinstance(target, ast.Subscript):
                    before = _without(module, before, target.slice, frame)
            return before
        case ast.Call(func=ast.Attribute(attr="update"), args=args):
            found = before
            for value in args[:1]:
                found = found.over(entries_of(module, value, change, frame, depth + 1))
            return found.over(_keywords(module, change, change, frame, depth))
        case ast.Call(func=ast.Attribute(attr="setdefault"), args=[key, value]):
            return _set(module, Entries(), key, value, frame).over(before)
        case ast.Call(func=ast.Attribute(attr="pop"), args=[key, *_]):
            return _without(module, before, key, frame)
        case ast.Call(func=ast.Attribute(attr="clear")):
            return Entries()
        case _:
            return Entries(before.items, open=True)


def _text(module: Module, key: ast.expr, frame: Frame | None) -> str | None:
    meant = module.resolver.meanings(key, frame)
    if len(meant) == 1 and isinstance(meant[0], Literal) and isinstance(meant[0].value, str):
        return meant[0].value
    return None


def _set(
    module: Module, before: Entries, key: ast.expr, value: ast.expr, frame: Frame | None
) -> Entries:
    text = _text(module, key, frame)
    if text is None:
        return Entries(before.items, open=True)
    new = Value(module.resolver.meanings(value, frame), node=value)
    return before.over(Entries({text: new}))


def _without(module: Module, before: Entries, key: ast.expr, frame: Frame | None) -> Entries:
    text = _text(module, key, frame)
    if text is None:
        return before
    # Named with nothing under it, also where the dictionary may hold keys that are not known.
    return Entries({**before.items, text: Value(absent=True)}, before.open)

"""Bytes that the same function made before it loads them: they come from nowhere else."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from everybit.source.checks.index import FUNCTIONS, calls_by_function, holder, once

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.source.module import Module

#: Functions that write; the last part of the name is enough, since any writer will do.
_SAVERS: Final = frozenset(
    {"dump", "dumps", "packb", "save", "savez", "savez_compressed", "to_pickle"}
)
_OPENERS: Final = frozenset({"open", "BytesIO"})
#: Each call of these makes another file, folder or buffer.
_NEW: Final = frozenset({
    "BytesIO", "NamedTemporaryFile", "SpooledTemporaryFile", "TemporaryDirectory", "TemporaryFile",
    "mkdtemp", "mkstemp",
})  # fmt: skip
#: Methods that give the content or the name of what they are called on.
_CONTENT: Final = frozenset({"getvalue", "getbuffer", "read", "read_bytes", "open", "fileno"})
_NAMES: Final = frozenset({"str", "fspath", "Path", "bytes"})
#: What loaders call the argument that is the file, path or data.
_FILES: Final = frozenset({"f", "file", "filename", "filepath_or_buffer", "path", "data", "string"})
_MAX_DEPTH: Final = 6
#: Saves of one name that are looked at, from the last one back.
_MAX_SAVES: Final = 16


def made_here(module: Module, load: ast.Call) -> bool:
    """Return whether the same function wrote what a call loads, on every way to the call.

    Args:
        module: Of the call.
        load: The call; its first argument is the file, path or data.
    """
    source = _first(load)
    if source is None:
        return False
    function = holder(module, load)
    written = _written(module).get(function)
    if written is None:
        return False
    for name in _stands_for(module, source):
        for call in written.get(name, ())[-_MAX_SAVES:]:
            before = call is not load and call.lineno <= load.lineno
            if before and _always_before(module, call, load, function):
                return True
    return False


def is_read_back(module: Module, save: ast.Call) -> bool:
    """Return whether a save goes to a buffer in memory that the same function loads: a copy."""
    target = next((k.value for k in save.keywords if k.arg == "f"), None)
    target = save.args[1] if len(save.args) > 1 else target
    if target is None or not any(
        isinstance(each, ast.Call) and ast.unparse(each.func).endswith("BytesIO")
        for each in module.definitions(target)
    ):
        return False
    names = set(_stands_for(module, target))
    function = holder(module, save)
    return any(
        _reads(call) and names & set(names_of(module, call))
        for call in calls_by_function(module).get(function, ())
    )


def written_in(module: Module, function: ast.AST) -> dict[str, list[ast.Call]]:
    """Return the calls of a function that write, by each expression that names what they write."""
    return _written(module).get(function, {})


def names_of(module: Module, node: ast.expr) -> tuple[str, ...]:
    """Return the expressions that name a file, or what a load reads, as `written_in` has them."""
    source = _first(node) if isinstance(node, ast.Call) and _reads(node) else node
    return tuple(dict.fromkeys(_stands_for(module, source))) if source is not None else ()


def _reads(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    name = call.func.id if isinstance(call.func, ast.Name) else name
    return "load" in name or name in ("read_pickle", "Unpickler")


@once
def _written(module: Module) -> dict[ast.AST, dict[str, list[ast.Call]]]:
    """Return, for each function, what its calls write: `{what names it: the calls}`."""
    found: dict[ast.AST, dict[str, list[ast.Call]]] = {}
    for function, calls in calls_by_function(module).items():
        for call in calls:
            if not _saves(call):
                continue
            names = found.setdefault(function, {})
            names.setdefault(ast.dump(call), []).append(call)
            for value in (*call.args, *(keyword.value for keyword in call.keywords)):
                for name in _stands_for(module, value):
                    names.setdefault(name, []).append(call)
    return found


def _first(call: ast.Call) -> ast.expr | None:
    if call.args:
        return call.args[0]
    return next((each.value for each in call.keywords if each.arg in _FILES), None)


def _saves(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else None
    if isinstance(call.func, ast.Name):
        name = call.func.id
    if name == "encode":  # a word that many objects know
        return ast.unparse(call.func) == "jsonpickle.encode"
    return name is not None and (name in _SAVERS or name.startswith(("save_", "dump_")))


def _stands_for(module: Module, node: ast.expr, depth: int = 0) -> Iterator[str]:
    """Yield the expressions, as text, that name the same bytes."""
    if depth > _MAX_DEPTH or (isinstance(node, ast.Constant) and not isinstance(node.value, str)):
        return
    if not _is_new(node):
        yield ast.dump(node)
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in _CONTENT:
            yield from _stands_for(module, value, depth + 1)
            if attr == "open" and node.args:
                yield from _stands_for(module, node.args[0], depth + 1)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if node.args and (
            name in _OPENERS or name in _NAMES
        ):
            yield from _stands_for(module, node.args[0], depth + 1)
        case ast.Attribute(value=value, attr="name"):
            yield from _stands_for(module, value, depth + 1)
        case ast.Name():
            found = module.definitions(node)
            if len(found) == 1 and found[0] is not node:
                yield from _stands_for(module, found[0], depth + 1)
        case _:
            pass


def _is_new(node: ast.expr) -> bool:
    """Return whether an expression makes another object each time it is run."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in _NEW or (name[:1].isupper() and not node.args and not node.keywords)
        case _:
            return False


def _always_before(module: Module, first: ast.AST, then: ast.AST, function: ast.AST) -> bool:
    """Return whether the first has run whenever the second does: no branch holds it alone."""
    around = {id(node) for node in module.ancestors(then)}
    child: ast.AST = first
    for node in module.ancestors(first):
        if node is function:
            return True
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            return False  # runs later, or never
        if isinstance(node, ast.If | ast.IfExp | ast.Try | ast.ExceptHandler | ast.match_case):
            if id(node) not in around:
                return isinstance(node, ast.Try) and _in_body(node, child) and _outside(node)
            if _block(node, child) != _block(node, _towards(module, node, then)):
                return False
        child = node
    return function is module.tree


def _in_body(node: ast.Try, child: ast.AST) -> bool:
    return any(child is each for each in node.body)


def _outside(node: ast.Try) -> bool:
    return all(_leaves(handler.body) for handler in node.handlers)


def _leaves(body: list[ast.stmt]) -> bool:
    return isinstance(body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)


def _towards(module: Module, ancestor: ast.AST, node: ast.AST) -> ast.AST:
    child = node
    for each in module.ancestors(node):
        if each is ancestor:
            return child
        child = each
    return child


def _block(node: ast.AST, child: ast.AST) -> str:
    for name in ("body", "orelse", "finalbody", "handlers", "test"):
        held = getattr(node, name, None)
        if held is child or (isinstance(held, list) and any(each is child for each in held)):
            return name
    return ""

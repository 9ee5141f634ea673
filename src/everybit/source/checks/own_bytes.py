"""Bytes that the same program made: in this function, in this object, in a rank of the same job."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from everybit.source.checks.index import holder, once
from everybit.source.checks.round_trip import made_here
from everybit.source.checks.test_code import is_test

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.source.module import Module

#: Called in a function, these show that bytes come from another process of the same job.
_OF_THE_JOB: Final = frozenset(
    f"torch.distributed.{name}"
    for name in (
        "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all",
        "broadcast", "broadcast_object_list", "gather", "gather_object", "recv", "scatter",
        "recv_object_list", "scatter_object_list",
    )
)  # fmt: skip
#: Functions that give bytes another form.
_FORMS: Final = frozenset({"BytesIO", "bytes", "bytearray", "memoryview", "open"})
_TEMPORARY: Final = ("tempfile.", "NamedTemporaryFile", "mkstemp", "mkdtemp", "TemporaryDirectory")
#: What pytest gives a test to write into, and what makes such a folder elsewhere.
_FIXTURES: Final = frozenset({"tmp_path", "tmpdir", "tmp_path_factory", "tmpdir_factory"})
_FOLDERS: Final = frozenset({"mkdtemp", "TemporaryDirectory", "NamedTemporaryFile", "mkstemp"})
_MAX_DEPTH: Final = 6


def comes_from_itself(module: Module, call: ast.Call) -> bool:
    """Return whether what a call loads was made by the same program, not read from outside.

    Args:
        module: Of the call.
        call: The load; its first argument is the file, path or data.
    """
    function = holder(module, call)
    if isinstance(function, ast.FunctionDef) and function.name == "__setstate__":
        return True
    if made_here(module, call):
        return True
    source = call.args[0] if call.args else None
    if source is not None and is_test(module) and _in_folder_of_test(module, source):
        return True
    made = list(_made_of(module, source)) if source is not None else []
    if not _takes_bytes(call, made):
        return _temporary_of_object(module, call, made)
    if function in _talking(module):
        return True
    return any(map(_is_tensor, made)) or _kept_by_object(module, call, made)


def _in_folder_of_test(module: Module, node: ast.expr, depth: int = 0) -> bool:
    """Return whether a path lies in a temporary folder, which a test fills by itself."""
    if depth > _MAX_DEPTH:
        return False
    for each in ast.walk(node):
        match each:
            case ast.Name(id=name) if name in _FIXTURES:
                return True
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _FOLDERS:
                return True
            case ast.Name() | ast.Attribute():
                found = [value for value in module.definitions(each)[:4] if value is not each]
                if any(_in_folder_of_test(module, value, depth + 1) for value in found):
                    return True
            case _:
                pass
    return False


def _takes_bytes(call: ast.Call, made: list[ast.expr]) -> bool:
    """Return whether a load is of bytes in memory, not of a file."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    name = call.func.id if isinstance(call.func, ast.Name) else name
    return name.endswith("loads") or any(
        isinstance(each, ast.Call) and ast.unparse(each.func).endswith("BytesIO") for each in made
    )


@once
def _talking(module: Module) -> frozenset[ast.AST]:
    """Return the functions that exchange data with the other ranks of the same job."""
    if "distributed" not in module.text:
        return frozenset()
    return frozenset(
        holder(module, site.node) for site in module.calls() if site.name in _OF_THE_JOB
    ) - {module.tree}


def _made_of(module: Module, node: ast.expr, depth: int = 0) -> Iterator[ast.expr]:
    """Yield an expression and what its bytes are cut, copied or named from."""
    if depth > _MAX_DEPTH:
        return
    yield node
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[first, *_]) if (
            name in _FORMS
        ):
            yield from _made_of(module, first, depth + 1)
        case ast.Subscript(value=value):
            yield from _made_of(module, value, depth + 1)
        case ast.Name():
            for value in module.definitions(node)[:4]:
                if value is not node:
                    yield from _made_of(module, value, depth + 1)
        case _:
            pass


def _is_tensor(node: ast.expr) -> bool:
    """Return whether bytes are those of a tensor: no file is read so, but a collective is."""
    match node:
        case ast.Call(
            func=ast.Attribute(attr="tobytes", value=ast.Call(func=ast.Attribute(attr="numpy")))
        ):
            return True
        case ast.Call(func=ast.Attribute(attr="numpy" | "tolist")):
            return True
        case _:
            return False


def _kept_by_object(module: Module, call: ast.Call, made: list[ast.expr]) -> bool:
    """Return whether bytes are kept in `self`, by a class that pickles them itself."""
    if not any(
        isinstance(each, ast.Attribute)
        and isinstance(each.value, ast.Name)
        and each.value.id == "self"
        for each in made
    ):
        return False
    owner = module.enclosing(call, ast.ClassDef)
    return owner is not None and owner in _pickling_classes(module)


def _temporary_of_object(module: Module, call: ast.Call, made: list[ast.expr]) -> bool:
    """Return whether a file is a temporary one that the same object has made and written."""
    owner = module.enclosing(call, ast.ClassDef)
    if owner is None or owner not in _pickling_classes(module):
        return False
    attributes = {
        each.attr
        for each in made
        if isinstance(each, ast.Attribute)
        and isinstance(each.value, ast.Name)
        and each.value.id == "self"
    }
    values = [value for name in attributes for value in _values(module, owner, name)]
    return any(word in ast.unparse(value) for value in values for word in _TEMPORARY)


def _values(module: Module, owner: ast.ClassDef, name: str) -> Iterator[ast.expr]:
    """Yield what a class gives one of its attributes: in its methods, and as a default."""
    yield from filter(None, module.self_assignments(owner).get(name, ()))
    for each in owner.body:
        match each:
            case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value):
                if target == name:
                    yield value
            case _:
                pass


@once
def _pickling_classes(module: Module) -> frozenset[ast.AST | None]:
    return frozenset(
        module.enclosing(node, ast.ClassDef)
        for node in module.call_nodes
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("dump", "dumps")
    )

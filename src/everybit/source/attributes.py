"""What an attribute means: of a library, of a module of the project, of a class and its bases."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from everybit.source.canonical import canonical
from everybit.source.meaning import (
    UNKNOWN,
    UNKNOWNS,
    Defined,
    External,
    Literal,
    Meaning,
    Meanings,
    Package,
    joined,
)
from everybit.source.scopes import How

if TYPE_CHECKING:
    from everybit.source.module import Module

_MAX_BASES: Final = 12
_ENUMS: Final = ("enum.Enum", "enum.StrEnum", "enum.IntEnum", "enum.Flag", "enum.IntFlag")
#: Calls in a row that a name keeps: `a()()()` of a hostile file must not grow without end.
_MAX_NAME: Final = 300


def attribute(owner: Meaning, name: str) -> Meanings:
    """Return what `owner.name` means."""
    match owner:
        case External(name=dotted):
            if len(dotted) > _MAX_NAME:
                return UNKNOWNS
            return (External(canonical(f"{dotted}.{name}")),)
        case Package():
            return _of_package(owner, name)
        case Defined(node=ast.ClassDef()):
            return of_class(owner, name) or UNKNOWNS
        case Literal(value=None):
            return ()  # a name that is None for a while: this attribute is another's
        case _:
            return UNKNOWNS


def _of_package(package: Package, name: str) -> Meanings:
    module = package.module
    if module is not None:
        if name in module.top.bindings:
            return module.resolver.look_up(name, module.top, None)
        below = module.project.below(package, name)
        if below is not None:
            return (below,)
        if module.top.stars:
            return module.resolver.look_up(name, module.top, None)
        return UNKNOWNS
    return UNKNOWNS


def result(meaning: External | Defined) -> Meaning:
    """Return what a call of something yields."""
    if isinstance(meaning, Defined):
        if isinstance(meaning.node, ast.ClassDef) and not meaning.instance:
            return Defined(meaning.module, meaning.node, instance=True)
        return UNKNOWN
    return External(f"{meaning.name}()") if len(meaning.name) < _MAX_NAME else UNKNOWN


def returned(function: Defined) -> Meanings:
    """Return what a function of the project may return; nothing where it returns no value."""
    node, module = function.node, function.module
    if isinstance(node, ast.Lambda):
        return module.resolver.meanings(node.body)
    if isinstance(node, ast.ClassDef):
        return UNKNOWNS
    values = module.returns(node)
    return joined(*(module.resolver.meanings(value) for value in values)) if values else UNKNOWNS


def self_of(module: Module, function: ast.AST, arg: ast.arg) -> Defined | None:
    """Return the class or instance that the first parameter of a method is."""
    owner = module.parents.get(function)
    if not isinstance(owner, ast.ClassDef) or isinstance(function, ast.Lambda):
        return None
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    first = [*function.args.posonlyargs, *function.args.args][:1]
    if not first or first[0] is not arg or "staticmethod" in _decorators(function):
        return None
    names = ("classmethod", "__new__", "__init_subclass__", "__class_getitem__")
    on_class = "classmethod" in _decorators(function) or function.name in names
    return Defined(module, owner, instance=not on_class)


def _decorators(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Return the last words of the decorators: `classmethod`, `property`."""
    found = []
    for each in function.decorator_list:
        target = each.func if isinstance(each, ast.Call) else each
        if isinstance(target, ast.Name):
            found.append(target.id)
        elif isinstance(target, ast.Attribute):
            found.append(target.attr)
    return found


def bases_of(module: Module, node: ast.AST) -> Meanings:
    """Return what `super()` means at a place: instances of the bases of the class around it."""
    owner = module.enclosing(node, ast.ClassDef)
    if not isinstance(owner, ast.ClassDef):
        return UNKNOWNS
    found = [
        result(meaning)
        for base in owner.bases
        for meaning in module.resolver.meanings(base)
        if isinstance(meaning, External | Defined)
    ]
    return tuple(found) or UNKNOWNS


def of_class(owner: Defined, name: str, seen: int = 0) -> Meanings:
    """Return what an attribute of a class or of an instance of it means; empty if not known."""
    node, module = owner.node, owner.module
    if not isinstance(node, ast.ClassDef) or seen > _MAX_BASES:
        return ()
    found = _in_body(owner, node, name)
    assigned = module.self_assignments(node).get(name, ())
    # An instance's own attribute hides the class's default.
    values = joined(
        *(module.resolver.meanings(v) if v is not None else UNKNOWNS for v in assigned), found
    )
    if values:
        return values
    for base in node.bases:
        for meaning in module.resolver.meanings(base):
            if isinstance(meaning, External) and meaning.name != "object":
                head = f"{meaning.name}()" if owner.instance else meaning.name
                return (External(canonical(f"{head}.{name}")),)
            if isinstance(meaning, Defined) and meaning.node is not node:
                above = Defined(meaning.module, meaning.node, instance=owner.instance)
                inherited = of_class(above, name, seen + 1)
                if inherited:
                    return inherited
    return ()


def is_enum(owner: Defined) -> bool:
    """Return whether a class is an enumeration, by its bases or those of its bases."""
    node, module = owner.node, owner.module
    if not isinstance(node, ast.ClassDef):
        return False
    return any(each.node is node and each.is_a(*_ENUMS) for each in module.classes)


def _in_body(owner: Defined, node: ast.ClassDef, name: str) -> Meanings:
    module = owner.module
    scope = module.scopes[node]
    bindings = scope.bindings.get(name)
    if not bindings:
        return ()
    last = bindings[-1]
    if last.how is How.DEFINED and isinstance(last.node, ast.FunctionDef | ast.AsyncFunctionDef):
        words = _decorators(last.node)
        function = Defined(module, last.node)
        if any(word in ("property", "cached_property", "setter") for word in words):
            return returned(function)
        filled = "classmethod" in words or (owner.instance and "staticmethod" not in words)
        return (Defined(module, last.node, method=filled),)
    found = module.resolver.look_up(name, scope, None)
    if owner.instance and isinstance(last.node, ast.AnnAssign):
        return joined(found, UNKNOWNS)  # a field: the constructor may be given another value
    return found

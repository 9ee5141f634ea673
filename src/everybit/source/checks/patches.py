"""Replacements of `torch.load` and of its defaults, for the whole process."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from everybit.source.canonical import canonical
from everybit.source.checks.test_code import is_test
from everybit.source.meaning import Defined, External, Given, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.source.meaning import FunctionNode, Meaning
    from everybit.source.module import Module

_LOAD: Final = "torch.load"
#: Private switches of torch: whatever replaces them replaces the protection.
_SWITCHES: Final = (
    "torch.serialization._default_to_weights_only",
    "torch._weights_only_unpickler.load",
    "torch._weights_only_unpickler.Unpickler",
    "torch.serialization._weights_only_unpickler.load",
    "torch.serialization._weights_only_unpickler",
)
_DEFAULTS: Final = ("__kwdefaults__", "__defaults__")
_UNSAFE: Final = frozenset({"pickle.load", "dill.load", "cloudpickle.load", "joblib.load"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """One replacement that switches the protection off.

    Attributes:
        node: The place.
        target: What is replaced.
        how: What the replacement does.
    """

    node: ast.AST
    target: str
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Replacing:
    node: ast.AST
    target: str
    value: ast.expr


def find_patches(module: Module) -> Iterator[Patch]:
    """Yield the replacements that switch the protection off; none in tests, which undo theirs."""
    if is_test(module):
        return
    for each in _replacing(module):
        if each.target in _SWITCHES:
            if not module.constants(each.value).surely(True) and not _returns_true(each.value):
                how = "replaces what decides or does the safe load"
                yield Patch(node=each.node, target=each.target, how=how)
        elif each.target != _LOAD:
            if module.constants(each.value).may_be(False) or _says_false(module, each.value):
                how = "makes weights_only=False the default"
                yield Patch(node=each.node, target=each.target, how=how)
        else:
            how = _switches_off(module, each.value)
            if how:
                yield Patch(node=each.node, target=each.target, how=how)


def patched_functions(module: Module) -> set[ast.AST]:
    """Return the statements that replace `torch.load`, and the functions that take its place."""
    found: set[ast.AST] = set()
    for each in _replacing(module):
        found.add(each.node)
        for meaning in module.resolver.meanings(each.value):
            if isinstance(meaning, Defined) and meaning.module is module:
                found.add(meaning.node)
    return found


def _replacing(module: Module) -> Iterator[_Replacing]:
    if "load" not in module.text or "torch" not in module.text:
        return
    for node in module.nodes(ast.Assign, ast.Call):
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    name = _target(module, target)
                    if name:
                        yield _Replacing(node=node, target=name, value=value)
            case ast.Call():
                yield from _by_call(module, node)
            case _:
                pass


def _target(module: Module, target: ast.expr) -> str:
    """Return which of torch's names an assignment replaces, empty for none."""
    if isinstance(target, ast.Subscript):
        names = (canonical(name) for name in module.resolve_all(target))
        replaced = next((name for name in names if name == _LOAD or name in _SWITCHES), "")
        if replaced and _is_namespace(target.value):
            return replaced
        target = target.value
        if not isinstance(target, ast.Attribute) or target.attr not in _DEFAULTS:
            return ""
    if not isinstance(target, ast.Attribute):
        return ""
    if target.attr in _DEFAULTS:
        return f"{_LOAD}.{target.attr}" if _LOAD in module.resolve_all(target.value) else ""
    # By its owner: an attribute of another object that holds torch.load is not torch's.
    owners = (canonical(f"{owner}.{target.attr}") for owner in module.resolve_all(target.value))
    return next((name for name in owners if name == _LOAD or name in _SWITCHES), "")


def _is_namespace(node: ast.expr) -> bool:
    """Return whether an expression is a module's dictionary: `torch.__dict__`, `vars(torch)`."""
    match node:
        case ast.Attribute(attr="__dict__") | ast.Call(func=ast.Name(id="vars")):
            return True
        case _:
            return False


def _by_call(module: Module, call: ast.Call) -> Iterator[_Replacing]:
    word = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    word = call.func.id if isinstance(call.func, ast.Name) else word
    if word not in ("setattr", "patch", "object"):
        return
    args = list(call.args)
    if word == "object" or (word == "setattr" and len(args) > 2):
        names = _attribute_of(module, args[:2])
        rest = args[2:]
    else:
        names = [
            "torch.load" if value == "torch.serialization.load" else value
            for value in (module.constants(args[0]).values if args else ())
            if isinstance(value, str)
        ]
        rest = args[1:]
    rest += [k.value for k in call.keywords if k.arg in ("new", "side_effect", "wraps")]
    for name in names:
        if rest and (name == _LOAD or name in _SWITCHES):
            yield _Replacing(node=call, target=name, value=rest[0])


def _attribute_of(module: Module, args: list[ast.expr]) -> list[str]:
    if len(args) < 2:
        return []
    return [
        _LOAD if owner == "torch.serialization" and name == "load" else f"{owner}.{name}"
        for owner in module.resolve_all(args[0])
        for name in module.constants(args[1]).values
        if isinstance(name, str)
    ]


def _switches_off(module: Module, value: ast.expr) -> str:
    """Return how a replacement of `torch.load` makes it unsafe, empty where it does not."""
    for meaning in module.resolver.meanings(value):
        how = _of_meaning(meaning)
        if how:
            return how
    return ""


def _of_meaning(meaning: Meaning) -> str:
    if not isinstance(meaning, External | Defined):
        return ""
    if any(_is_false(given) for given in meaning.bound):
        return "binds weights_only=False"
    if isinstance(meaning, External):
        return f"puts {meaning.name} in its place" if meaning.name in _UNSAFE else ""
    if isinstance(meaning.node, ast.ClassDef):
        return ""
    return _of_function(meaning.module, meaning.node)


def _is_false(given: Given) -> bool:
    if given.name != "weights_only":
        return False
    found = given.module.resolver.meanings(given.node)
    return any(isinstance(m, Literal) and m.value is False for m in found)


def _of_function(module: Module, function: FunctionNode) -> str:
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and set(module.resolve_all(node.func)) & _UNSAFE:
            return "unpickles in its place"
        if _says_false(module, node):
            return "sets weights_only=False"
    return ""


def _says_false(module: Module, node: ast.AST) -> bool:
    """Return whether a node sets `weights_only` to a false constant."""

    def false(value: ast.expr) -> bool:
        return module.constants(value).may_be(False)

    match node:
        case ast.keyword(arg="weights_only", value=value):
            return false(value)
        case ast.Assign(
            targets=[ast.Subscript(slice=ast.Constant(value="weights_only"))], value=value
        ):
            return false(value)
        case ast.Call(
            func=ast.Attribute(attr="setdefault"),
            args=[ast.Constant(value="weights_only"), value],
        ):
            return false(value)
        case ast.Dict(keys=keys, values=values):
            return any(
                isinstance(key, ast.Constant) and key.value == "weights_only" and false(value)
                for key, value in zip(keys, values, strict=True)
            )
        case _:
            return False


def _returns_true(value: ast.expr) -> bool:
    match value:
        case ast.Lambda(body=ast.Constant(value=True)):
            return True
        case _:
            return False

"""SRC316: safetensors metadata looked for in the dictionary of tensors, which has none."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from everybit.source.checks.flow import written
from everybit.source.hit import Hit
from everybit.source.meaning import External

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.source.module import Module

RULE_ID: Final = "SRC316"
WORDS: Final = ("safetensors",)
NEEDS: Final = ("metadata",)
_KEY: Final = "__metadata__"
_LOADED: Final = frozenset(
    f"safetensors.{framework}.{name}()"
    for framework in ("torch", "numpy", "flax", "mlx", "tensorflow", "paddle")
    for name in ("load_file", "load")
)
_LOOKS: Final = frozenset({"get", "pop", "setdefault", "__getitem__", "__contains__"})


def check(module: Module) -> Iterator[Hit]:
    """Yield one hit for each place that asks the tensors for metadata."""
    for node in module.parents:
        asked = _asked(node)
        if asked is None:
            continue
        owner, how, silent = asked
        if _is_loaded(module, owner):
            yield _hit(module, node, owner, how, silent=silent)


def _asked(node: ast.AST) -> tuple[ast.expr, str, bool] | None:
    """Return what is asked for metadata, how, and whether it answers without an error."""
    match node:
        case ast.Subscript(value=owner, slice=ast.Constant(value="__metadata__"), ctx=ast.Load()):
            return owner, f'["{_KEY}"]', False
        case ast.Call(
            func=ast.Attribute(value=owner, attr=attr),
            args=[ast.Constant(value="__metadata__"), *rest],
        ) if attr in _LOOKS:
            return owner, f'.{attr}("{_KEY}")', attr != "pop" or bool(rest)
        case ast.Compare(
            left=ast.Constant(value="__metadata__"),
            ops=[ast.In() | ast.NotIn()],
            comparators=[owner],
        ):
            return owner, f'"{_KEY}" in', True
        case ast.Attribute(value=owner, attr="metadata" | "__metadata__", ctx=ast.Load()):
            return owner, f".{node.attr}", False
        case _:
            return None


def _is_loaded(module: Module, node: ast.expr) -> bool:
    """Whether an expression can only be what safetensors loaded."""
    found = module.resolver.meanings(node)
    return bool(found) and all(
        isinstance(meaning, External) and meaning.name in _LOADED for meaning in found
    )


def _hit(module: Module, node: ast.AST, owner: ast.expr, how: str, *, silent: bool) -> Hit:
    name = written(owner) or module.source(owner)
    end = "is always empty" if silent else "raises"
    made = module.definitions(owner)
    loader = module.resolve(made[0].func) if made and isinstance(made[0], ast.Call) else None
    loader = loader or "safetensors.torch.load_file"
    asked = f"`{how} {name}`" if how.endswith(" in") else f"`{name}{how}`"
    return Hit(
        rule=RULE_ID,
        node=node,
        message=f"{asked} {end}: `{loader}` returns the tensors of the file, never its metadata",
        evidence={
            "dictionary": name,
            "access": how,
            "loaded_line": made[0].lineno if made else None,
        },
    )

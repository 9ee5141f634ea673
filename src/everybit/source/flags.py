"""What the flags of a script can be: `add_argument("--weights-only", action="store_true")`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from everybit.source.meaning import UNKNOWNS, External, Literal, Meanings, joined, literal

if TYPE_CHECKING:
    from everybit.source.module import Module

#: The result of `parse_args`, whose attributes are the flags.
PARSED: Final = External("argparse.ArgumentParser().parse_args()")
_SWITCHES: Final = {"store_true": False, "store_false": True}


def read_flags(module: Module) -> dict[str, Meanings]:
    """Return `{name of the value: what it may be}`, where `argparse` is told a default.

    A default is one of the values; what the command line says is another, not known.
    """
    found: dict[str, Meanings] = {}
    for node in module.call_nodes:
        if not isinstance(node.func, ast.Attribute) or node.func.attr != "add_argument":
            continue
        given = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        name = _name(node, given)
        values = _values(module, given)
        if name and values:
            found[name] = joined(found.get(name, ()), values)
    return found


def _name(node: ast.Call, given: dict[str, ast.expr]) -> str:
    if "dest" in given:
        dest = given["dest"]
        return str(dest.value) if isinstance(dest, ast.Constant) else ""
    words = [
        arg.value
        for arg in node.args
        if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
    ]
    long = next((word for word in words if word.startswith("--")), words[0] if words else "")
    return long.lstrip("-").replace("-", "_")


def _values(module: Module, given: dict[str, ast.expr]) -> Meanings:
    action = given.get("action")
    word = action.value if isinstance(action, ast.Constant) else None
    if word in _SWITCHES:
        first = _SWITCHES[str(word)]
        default = module.resolver.meanings(given["default"]) if "default" in given else ()
        return joined(default or (literal(first),), (literal(not first),))
    if "default" in given:
        default = module.resolver.meanings(given["default"])
        if any(isinstance(meaning, Literal) for meaning in default):
            return joined(default, UNKNOWNS)
    return ()

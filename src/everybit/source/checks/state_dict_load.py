"""Loads whose result is a state dict and nothing else: there `weights_only=True` is certain."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from everybit.source.checks.index import holder, once

if TYPE_CHECKING:
    from everybit.source.module import Module

#: What holds tensors. Schedulers and loaders may keep objects in their state.
_RECEIVER: Final = re.compile(
    r"model|net|module|encoder|decoder|backbone|generator|discriminator|critic|actor|policy|head"
    r"|optim|layer|transformer|resnet|vgg|bert|unet|vae|gan",
    re.IGNORECASE,
)
_OTHER: Final = re.compile(r"sched|loader|sampler|callback|trainer|state\b", re.IGNORECASE)
#: A name that is used more often is more than one state dict.
_MAX_USES: Final = 8


def loads_state_dict(module: Module, call: ast.Call) -> bool:
    """Return whether the result of a call goes into `load_state_dict` of a module, whole.

    Args:
        module: Of the call.
        call: The load.
    """
    parent = module.parents.get(call)
    if _takes(parent, call):
        return True
    if not isinstance(parent, ast.Assign) or len(parent.targets) != 1:
        return False
    target = parent.targets[0]
    if not isinstance(target, ast.Name):
        return False
    named = _names(module).get((holder(module, call), target.id), [])
    if len(named) > _MAX_USES:
        return False
    uses = [node for node in named if node is not target]
    return bool(uses) and all(_takes(module.parents.get(use), use) for use in uses)


@once
def _names(module: Module) -> dict[tuple[ast.AST, str], list[ast.Name]]:
    """Return where each function uses and binds each name, as far as its text says."""
    found: dict[tuple[ast.AST, str], list[ast.Name]] = {}
    for node in module.nodes(ast.Name):
        found.setdefault((holder(module, node), node.id), []).append(node)
    return found


def _takes(parent: ast.AST | None, node: ast.expr) -> bool:
    """Return whether the parent is `model.load_state_dict(node, ...)`."""
    match parent:
        case ast.Call(func=ast.Attribute(value=receiver, attr="load_state_dict"), args=[first, *_]):
            text = ast.unparse(receiver)
            return (
                first is node and _RECEIVER.search(text) is not None and _OTHER.search(text) is None
            )
        case _:
            return False

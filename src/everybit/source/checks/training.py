"""What a training step is made of: backward passes, optimizer steps, gradient scalers."""

from __future__ import annotations

import ast
import re
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from everybit.source.checks.flow import last_word, possible, written

if TYPE_CHECKING:
    from collections.abc import Iterable

    from everybit.source.module import Module

#: Anything that clears gradients, under the names people give it.
CLEARS: Final = re.compile(
    r"zero_?grad|(clear|reset|zero|flush|clean|wipe|empty)\w*_?grad|set_to_none|set_grads?_to_none"
    r"|grads?_?(zero|clear|reset)",
    re.IGNORECASE,
)
_OPTIMIZER_NAME: Final = re.compile(r"optim|^_?opts?\d*$|^_?opt_|_opt\d*$", re.IGNORECASE)
_NO_OPTIMIZER: Final = re.compile(r"sched|option|optional|optimum|optimal|env\b", re.IGNORECASE)
_BACKWARD: Final = frozenset({"backward", "manual_backward"})
SCALERS: Final = ("torch.amp.GradScaler()", "torch.cuda.amp.GradScaler()")


class Sureness(Enum):
    """How sure it is that something is an optimizer."""

    NO = auto()
    LIKELY = auto()  # by its name alone
    PROVEN = auto()  # it is made by `torch.optim`


def is_backward(node: ast.AST) -> bool:
    """Whether a node is a call of a backward pass."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _BACKWARD
    )


def judge_optimizer(module: Module, node: ast.expr) -> Sureness:
    """Tell whether an expression is an optimizer of PyTorch."""
    names = [name for name in module.resolve_all(node) if name]
    if any(name.startswith("torch.optim.") and "lr_scheduler" not in name for name in names):
        return Sureness.PROVEN
    if names:
        return Sureness.NO  # something else, and known
    name = last_word(node)
    if isinstance(node, ast.Subscript):
        name = last_word(node.value)
    if _OPTIMIZER_NAME.search(name) and not _NO_OPTIMIZER.search(name):
        return Sureness.LIKELY
    return Sureness.NO


def stepped(module: Module, call: ast.Call) -> tuple[ast.expr, Sureness] | None:
    """Return the optimizer that a call steps, directly or through a scaler; None if it does not."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "step":
        return None
    owner = call.func.value
    if call.args and is_scaler(module, owner) and isinstance(call.args[0], ast.expr):
        sure = judge_optimizer(module, call.args[0])
        # What a scaler steps is an optimizer, whatever it is called.
        return call.args[0], Sureness.LIKELY if sure is Sureness.NO else sure
    sure = judge_optimizer(module, owner)
    return (owner, sure) if sure is not Sureness.NO else None


def is_scaler(module: Module, node: ast.expr) -> bool:
    """Whether an expression is a GradScaler, by what it is or, unknown, by its name."""
    names = [name for name in module.resolve_all(node) if name]
    if names:
        return any(name in SCALERS for name in names)
    return "scaler" in last_word(node).lower()


def is_switched_off(module: Module, scaler: ast.expr) -> bool:
    """Whether a scaler is made with `enabled=False`."""
    made = [each for each in possible(module, scaler) if isinstance(each, ast.Call)]
    return bool(made) and all(
        any(
            keyword.arg == "enabled"
            and isinstance(keyword.value, ast.Constant)
            and keyword.value.value is False
            for keyword in call.keywords
        )
        for call in made
    )


def scaled_by(module: Module, call: ast.Call) -> ast.expr | None:
    """Return the scaler of `scaler.scale(loss).backward()`; None for another backward pass."""
    if not is_backward(call) or not isinstance(call.func, ast.Attribute):
        return None
    for source in possible(module, call.func.value):
        if (
            isinstance(source, ast.Call)
            and isinstance(source.func, ast.Attribute)
            and source.func.attr == "scale"
            and is_scaler(module, source.func.value)
        ):
            return source.func.value
    return None


def backward_of(nodes: Iterable[ast.AST]) -> ast.Call | None:
    """Return the first backward pass among some nodes."""
    return next((node for node in nodes if isinstance(node, ast.Call) and is_backward(node)), None)


def clears_by_hand(node: ast.AST) -> bool:
    """Whether a statement sets a gradient to None or zero: `p.grad = None`, `p.grad.zero_()`."""
    match node:
        case ast.Assign(targets=targets):
            return any(isinstance(t, ast.Attribute) and t.attr == "grad" for t in targets)
        case ast.Delete(targets=targets):
            return any(isinstance(t, ast.Attribute) and t.attr == "grad" for t in targets)
        case ast.Call(func=ast.Attribute(attr="zero_" | "fill_", value=owner)):
            return "grad" in (written(owner) or "").split(".")
        case ast.Call(func=ast.Name(id="setattr"), args=[_, ast.Constant(value="grad"), *_]):
            return True
        case _:
            return False

"""SRC312: a training step that calls the module inside a DistributedDataParallel model."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from everybit.source.checks.flow import (
    bodies,
    body_around,
    calls_in,
    inside,
    last_word,
    names_in,
    place,
    written,
)
from everybit.source.checks.training import is_backward
from everybit.source.hit import Hit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from everybit.source.module import Module

RULE_ID: Final = "SRC312"
WORDS: Final = ("DistributedDataParallel",)
NEEDS: Final = ("module", "backward")
#: Calls of one function that are followed to its backward pass.
_MAX_IN_ONE: Final = 16
_WRAPPERS: Final = ("torch.nn.parallel.DistributedDataParallel()",)
_NO_GRADIENT: Final = frozenset({"no_grad", "inference_mode", "set_grad_enabled", "eval"})
_BY_HAND: Final = frozenset({"all_reduce", "all_reduce_coalesced", "reduce", "allreduce"})
#: What is taken off the inner module without a pass through its layers.
_NO_PASS: Final = frozenset(
    {
        "state_dict", "load_state_dict", "parameters", "named_parameters", "buffers", "modules",
        "named_modules", "children", "train", "eval", "to", "cuda", "cpu", "zero_grad", "save",
        "save_pretrained", "requires_grad_", "apply", "half", "float", "bfloat16", "type",
        "register_buffer", "named_buffers", "named_children", "get_parameter", "get_submodule",
        "criterion", "loss_fn", "loss_func", "loss_function",
    }
)  # fmt: skip


def check(module: Module) -> Iterator[Hit]:
    """Yield one hit for each call past the wrapper whose result is trained on."""
    if not any(name in module.text for name in (".module", '"module"')):
        return
    everywhere: frozenset[str] | None = None
    for body in bodies(module):
        calls = list(calls_in([body]))
        if not any(is_backward(call) for call in calls):
            continue
        if any(last_word(call.func) in _BY_HAND for call in calls):
            continue
        found = [(call, wrapper) for call in calls if (wrapper := _bypassed(module, call))]
        if not found:
            continue
        here = _used(module, calls)
        statements = _statements(module, body)
        for call, wrapper in found[:_MAX_IN_ONE]:
            # A method may only compute from what the wrapper returned, in another function.
            used = here
            if isinstance(call.func, ast.Attribute) and call.func.attr not in ("module", "forward"):
                everywhere = everywhere or _used(module, module.call_nodes)
                used = everywhere
            if written(wrapper) in used or _without_gradient(module, call):
                continue
            backward = _reaches(statements, call)
            if backward is not None:
                yield _hit(module, call, wrapper, backward)


def _bypassed(module: Module, call: ast.Call) -> ast.expr | None:
    """Return the wrapper that a call goes past, None where it does not."""
    func = call.func
    if isinstance(func, ast.Attribute) and func.attr in _NO_PASS:
        return None
    inner = _inner(module, func)
    if inner is None and isinstance(func, ast.Attribute):
        inner = _inner(module, func.value)  # a method of the inner module
    return inner


def _inner(module: Module, node: ast.expr) -> ast.expr | None:
    """Return the wrapper of `wrapper.module`, also through a name that stands for it alone."""
    for each in module.definitions(node) or (node,):
        if (
            isinstance(each, ast.Attribute)
            and each.attr == "module"
            and any(name in _WRAPPERS for name in module.resolve_all(each.value))
        ):
            return each.value
    return None


def _used(module: Module, calls: Sequence[ast.Call]) -> frozenset[str]:
    """Return the names that are called or given away: a wrapper among them does its work."""
    found: set[str | None] = set()
    for call in calls:
        if not any(each in _WRAPPERS for each in module.resolve_all(call)):
            found.add(written(call.func))
            found.update(written(arg) for arg in call.args)
            found.update(written(keyword.value) for keyword in call.keywords)
    return frozenset(name for name in found if name is not None)


def _without_gradient(module: Module, call: ast.Call) -> bool:
    for each in module.ancestors(call):
        if isinstance(each, ast.With | ast.AsyncWith) and any(
            last_word(node) in _NO_GRADIENT
            for item in each.items
            for node in ast.walk(item.context_expr)
            if isinstance(node, ast.Name | ast.Attribute)
        ):
            return True
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            return any(
                last_word(node) in _NO_GRADIENT
                for decorator in each.decorator_list
                for node in ast.walk(decorator)
                if isinstance(node, ast.Name | ast.Attribute)
            )
    return False


def _reaches(statements: list[ast.stmt], call: ast.Call) -> ast.Call | None:
    """Return the backward pass that the result of a call reaches through plain assignments."""
    tainted: set[str] = set()
    for node in statements:
        match node:
            case ast.Assign(targets=targets, value=value):
                found = _carries(value, call, tainted)
                for target in targets:
                    _mark(target, tainted, carries=found)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                _mark(target, tainted, carries=_carries(value, call, tainted))
            case ast.AugAssign(target=target, value=value):
                if _carries(value, call, tainted):
                    _mark(target, tainted, carries=True)
            case ast.Expr(value=value):
                for each in inside(value):
                    if (
                        isinstance(each, ast.Call)
                        and is_backward(each)
                        and _carries(each, call, tainted)
                    ):
                        return each
            case _:
                pass
    return None


def _statements(module: Module, body: ast.AST) -> list[ast.stmt]:
    """Return the statements of a function in the order of the text."""
    found = [
        node
        for node in inside([body])
        if isinstance(node, ast.stmt) and body_around(module, node) is body
    ]
    return sorted(found, key=place)


def _carries(value: ast.expr, call: ast.Call, tainted: set[str]) -> bool:
    if any(
        isinstance(node, ast.Attribute) and node.attr in ("detach", "item", "data", "tolist")
        for node in ast.walk(value)
    ):
        return False
    return any(node is call for node in ast.walk(value)) or bool(names_in(value) & tainted)


def _mark(target: ast.expr, tainted: set[str], *, carries: bool) -> None:
    for node in ast.walk(target):
        if isinstance(node, ast.Name):
            if carries:
                tainted.add(node.id)
            elif node is target or isinstance(node.ctx, ast.Store):
                tainted.discard(node.id)


def _hit(module: Module, call: ast.Call, wrapper: ast.expr, backward: ast.Call) -> Hit:
    name = written(wrapper) or module.source(wrapper)
    called = written(call.func) or module.source(call.func)
    return Hit(
        rule=RULE_ID,
        node=call,
        message=(
            f"`{called}(...)` goes past the DistributedDataParallel wrapper `{name}`, and the "
            f"backward pass of line {backward.lineno} then reduces no gradient: each rank "
            "trains a model of its own"
        ),
        evidence={"wrapper": name, "call": called, "backward_line": backward.lineno},
        remedy=f"Call `{name}(...)` itself; let `forward` choose where another method is meant.",
    )

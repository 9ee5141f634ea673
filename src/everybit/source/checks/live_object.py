"""Which expressions are a live module, optimizer or scheduler, and how that is known."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from everybit.source.meaning import Defined, External

if TYPE_CHECKING:
    from everybit.source.module import Module

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_MODULE: Final = (
    "torch.nn.Module",
    "lightning.pytorch.LightningModule",
    "transformers.PreTrainedModel",
)
#: Calls whose result is a module, an optimizer, a scheduler or a scaler.
_MADE: Final = re.compile(
    r"torch\.nn\.(?:modules\.\w+\.)?[A-Z]\w*\(\)"
    r"|torch\.nn\.parallel\.DistributedDataParallel\(\)"
    r"|torch\.optim\.(?:\w+\.)?[A-Z]\w*\(\)"
    r"|torch\.optim\.lr_scheduler\.\w+\(\)"
    r"|torch\.(?:cuda\.)?amp\.GradScaler\(\)"
    r"|torch\.compile\(\)"
    r"|torchvision\.models\.(?:\w+\.)*[a-z]\w*\(\)"
    r"|timm\.create_model\(\)|timm\.models\.create_model\(\)"
    r"|transformers\.(?:Auto)?Model\w*\.from_pretrained\(\)"
    r"|transformers\.\w+Model\.from_pretrained\(\)"
    r"|transformers\.\w+For[A-Z]\w+\.from_pretrained\(\)"
)
_NO_MODULE: Final = re.compile(r"torch\.nn\.(?:Parameter|ParameterDict|Buffer|init|functional)\b")
#: Methods that give back the object they are called on.
_SAME: Final = frozenset(
    {"to", "cpu", "cuda", "half", "float", "double", "bfloat16", "eval", "train", "requires_grad_"}
)
#: Functions that give back the module they are given, or its copy.
_UNWRAPPING: Final = frozenset(
    {
        "deepcopy",
        "copy",
        "unwrap_model",
        "de_parallel",
        "unwrap",
        "unwrap_compiled",
        "unparallelize",
    }
)
#: Methods that only a module has.
_OF_MODULES: Final = frozenset(
    {
        "parameters",
        "named_parameters",
        "train",
        "eval",
        "named_modules",
        "load_state_dict",
        "zero_grad",
    }
)
#: Calls whose result is no live object, whatever the name that holds it.
_NO_OBJECT: Final = frozenset(
    {
        "state_dict", "get", "items", "pop", "parameters", "load", "load_file", "loads", "dict",
        "list", "tuple", "OrderedDict", "from_numpy", "tensor", "zeros", "ones", "stack", "cat",
    }
)  # fmt: skip
_MAX_DEPTH: Final = 8


def live_object(module: Module, node: ast.expr, depth: int = 0) -> str:
    """Return how an expression is known to be a live object, empty where it is not.

    Args:
        module: Of the expression.
        node: What is saved.
        depth: Steps taken so far.
    """
    if depth > _MAX_DEPTH:
        return ""
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in _SAME:
            return live_object(module, value, depth + 1)
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[first]) if (
            name in _UNWRAPPING
        ):
            return live_object(module, first, depth + 1)
        case ast.Attribute(value=value, attr="module"):
            return live_object(module, value, depth + 1)
        case ast.Call():
            return _made(module, node)
        case ast.Name() | ast.Attribute():
            return _named(module, node, depth)
        case ast.IfExp(body=body, orelse=orelse):
            return live_object(module, body, depth + 1) or live_object(module, orelse, depth + 1)
        case _:
            return ""


def _made(module: Module, node: ast.expr) -> str:
    """Return how the result of a call, or a name for one, is known to be a live object."""
    meanings = module.resolver.meanings(node)
    known = [m for m in meanings if isinstance(m, External | Defined)]
    if not known or len(known) < len([m for m in meanings if m is not None]) - 1:
        return ""
    how = ""
    for meaning in known:
        how = _of_meaning(meaning)
        if not how:
            return ""
    return how


def _of_meaning(meaning: External | Defined) -> str:
    if isinstance(meaning, External):
        if _MADE.fullmatch(meaning.name) and not _NO_MODULE.match(meaning.name):
            return f"it is made by {meaning.name.removesuffix('()')}"
        return ""
    if not meaning.instance or not isinstance(meaning.node, ast.ClassDef):
        return ""
    for each in meaning.module.classes:
        if each.node is meaning.node and each.is_a(*_MODULE):
            return f"{each.node.name} is a torch.nn.Module"
    return ""


def _named(module: Module, node: ast.Name | ast.Attribute, depth: int) -> str:
    made = _made(module, node)
    if made:
        return made
    for value in module.definitions(node):
        if value is not node and not _may_be_live(value):
            return ""
    own = [value for value in module.definitions(node) if value is not node]
    found = [live_object(module, value, depth + 1) for value in own]
    if found and all(found):
        return found[0]
    return _by_use(module, node)


def _may_be_live(value: ast.expr) -> bool:
    """Return whether what a name stands for does not show that it is something else."""
    match value:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name not in _NO_OBJECT
        case ast.Name() | ast.Attribute() | ast.Constant(value=None):
            return True
        case _:
            return False


def _by_use(module: Module, node: ast.Name | ast.Attribute) -> str:
    """Return which method of a module is called on the same name, in the same function."""
    scope: ast.AST | None = module.enclosing(node, *_FUNCTIONS)
    if isinstance(node, ast.Attribute):
        if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            return ""
        scope = module.enclosing(node, ast.ClassDef)
    text = ast.dump(node)
    stores = [
        each
        for each in ast.walk(scope or module.tree)
        if isinstance(each, ast.Assign) and any(_is_same(t, node) for t in each.targets)
    ]
    for call in ast.walk(scope or module.tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        if call.func.attr not in _OF_MODULES or ast.dump(call.func.value) != text:
            continue
        if isinstance(node, ast.Name) and any(
            call.lineno <= store.lineno <= node.lineno for store in stores
        ):
            continue  # it holds something else by now
        return f"{ast.unparse(node)}.{call.func.attr}() is called"
    return ""


def _is_same(target: ast.expr, node: ast.Name | ast.Attribute) -> bool:
    return ast.unparse(target) == ast.unparse(node)

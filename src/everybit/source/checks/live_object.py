"""Which expressions are a live module, optimizer or scheduler, and how that is known."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from everybit.source.checks.index import holder, once
from everybit.source.meaning import Defined, External

if TYPE_CHECKING:
    from everybit.source.module import Module

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
#: Uses and assignments of one name that are compared.
_MAX_STORES: Final = 64


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
            name = meaning.name.removesuffix("()")
            return f"it is a {name}" if name in _MODULE else f"it is made by {name}"
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
    if isinstance(node, ast.Attribute):
        if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            return ""
        owner = module.enclosing(node, ast.ClassDef)
        used = _uses(module).get((owner, ast.unparse(node)), ())
        return f"{ast.unparse(node)}.{used[0][1]}() is called" if used else ""
    function = holder(module, node)
    stores = _stores(module).get((function, node.id), ())
    for line, method in _uses(module).get((function, node.id), ()):
        if not any(line <= store <= node.lineno for store in stores[:_MAX_STORES]):
            return f"{node.id}.{method}() is called"
    return ""  # or it holds something else by now


@once
def _uses(module: Module) -> dict[tuple[ast.AST | None, str], list[tuple[int, str]]]:
    """Return where methods of modules are called: on names, and in a class on `self.NAME`."""
    found: dict[tuple[ast.AST | None, str], list[tuple[int, str]]] = {}
    for call in module.call_nodes:
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in _OF_MODULES:
            continue
        place: ast.AST | None
        match call.func.value:
            case ast.Name(id=name):
                place = holder(module, call)
            case ast.Attribute(value=ast.Name(id="self"), attr=attr):
                place, name = module.enclosing(call, ast.ClassDef), f"self.{attr}"
            case _:
                continue
        uses = found.setdefault((place, name), [])
        if len(uses) < _MAX_STORES:
            uses.append((call.lineno, call.func.attr))
    return found


@once
def _stores(module: Module) -> dict[tuple[ast.AST, str], list[int]]:
    """Return the lines where each function assigns each name."""
    found: dict[tuple[ast.AST, str], list[int]] = {}
    for node in module.nodes(ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name):
                found.setdefault((holder(module, node), target.id), []).append(node.lineno)
    return found

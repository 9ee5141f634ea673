"""SRC305: a loop over epochs whose shuffling DistributedSampler never learns the epoch."""

from __future__ import annotations

import ast
import re
from functools import partial
from typing import TYPE_CHECKING, Final

from everybit.source.checks.flow import (
    Loop,
    body_around,
    inside,
    iterated,
    last_word,
    loops_around,
    names_in,
    possible,
    written,
)
from everybit.source.checks.reach import Reach
from everybit.source.checks.training import is_backward
from everybit.source.hit import Fix, Hit, InsertFirst

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from everybit.source.calls import CallSite
    from everybit.source.module import Module

RULE_ID: Final = "SRC305"
WORDS: Final = ("DistributedSampler",)
_SAMPLER: Final = "torch.utils.data.DistributedSampler"
_LOADER: Final = "torch.utils.data.DataLoader"
_BATCHES: Final = "torch.utils.data.BatchSampler"
#: Libraries whose loaders count epochs by themselves.
_FRAMEWORKS: Final = re.compile(
    r"\b(accelerate|lightning|pytorch_lightning|fabric|deepspeed|composer|ignite)\b"
)
#: Samplers, loaders and loops of one file that are put beside each other.
_MAX_PAIRS: Final = 64
_COUNTS: Final = frozenset({"range", "trange", "count"})
_EVALUATES: Final = re.compile(r"val|test|eval|predict|infer", re.IGNORECASE)


def check(module: Module) -> Iterator[Hit]:
    """Yield one hit for each loop over epochs that trains in the same order each time."""
    if _FRAMEWORKS.search(module.text):
        return
    sites = [site for site in module.calls() if site.name == _SAMPLER and _shuffles(site)]
    pairs = [(site.node, each) for site in sites[:_MAX_PAIRS] for each in _loaders(module, site)]
    if not pairs:
        return
    reach = Reach(module)
    uses = _uses(reach, {loader for _, loader in pairs[:_MAX_PAIRS]})
    telling = _telling(module)
    seen: set[Loop] = set()
    for sampler, loader in pairs[:_MAX_PAIRS]:
        for loop, batches in uses.get(loader, ()):
            if (
                loop in seen
                or len(seen) >= _MAX_PAIRS
                or not _is_epoch(loop)
                or not _trains(reach, batches)
            ):
                continue
            if any(_tells(module, sampler, node) for node in telling):
                continue
            if reach.any([loop], partial(_tells, module, sampler)):
                continue
            seen.add(loop)
            yield _hit(module, loop, sampler, loader, batches)


def _shuffles(site: CallSite) -> bool:
    shuffle = site.argument("shuffle", 3)
    return shuffle.is_absent or shuffle.surely_truthy


def _loaders(module: Module, sampler: CallSite) -> Iterator[ast.Call]:
    """Yield the DataLoaders that a sampler is given to, through a BatchSampler too."""
    for site in module.calls():
        if site.name != _LOADER:
            continue
        for name, position in (("sampler", 3), ("batch_sampler", 4)):
            given = site.argument(name, position).node
            if given is not None and _comes_from(module, given, sampler.node):
                yield site.node
                break


def _comes_from(module: Module, node: ast.expr, sampler: ast.Call) -> bool:
    for each in possible(module, node):
        if each is sampler:
            return True
        if isinstance(each, ast.Call) and module.resolve(each.func) == _BATCHES:
            args = [*each.args[:1], *(k.value for k in each.keywords if k.arg == "sampler")]
            if any(inner is sampler for arg in args for inner in possible(module, arg)):
                return True
    return False


def _uses(reach: Reach, loaders: set[ast.Call]) -> dict[ast.expr, list[tuple[Loop, ast.AST]]]:
    """Return, for each loader, the loops that go through it again and again, and what does it."""
    module = reach.module
    found: dict[ast.expr, list[tuple[Loop, ast.AST]]] = {}
    loops: list[ast.For | ast.AsyncFor] = [*module.nodes(ast.For), *module.nodes(ast.AsyncFor)]
    for node in loops:
        for loader in loaders & _meant(module, iterated(node.iter)):
            for loop in _around(reach, node):
                found.setdefault(loader, []).append((loop, node))
    for call in module.call_nodes:
        around = loops_around(module, call)[:1]
        if not around or any(each is call for each in ast.walk(_header(around[0]))):
            continue
        given = [*call.args, *(k.value for k in call.keywords)]
        names = [arg for arg in given if written(arg) is not None]
        for loader in loaders & _meant(module, names):
            found.setdefault(loader, []).append((around[0], call))
    return found


def _meant(module: Module, nodes: Iterable[ast.expr]) -> set[ast.Call]:
    return {each for node in nodes for each in possible(module, node) if isinstance(each, ast.Call)}


def _around(reach: Reach, node: ast.For | ast.AsyncFor) -> list[Loop]:
    """Return the loops that repeat a loop over batches, in its function or at its calls."""
    module = reach.module
    around = loops_around(module, node)
    if around:
        return around[:1]
    function = body_around(module, node)
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    calls = reach.callers(function)[:_MAX_PAIRS]
    return [loop for call in calls for loop in loops_around(module, call)[:1]]


def _header(loop: Loop) -> ast.expr:
    return loop.test if isinstance(loop, ast.While) else loop.iter


def _is_epoch(loop: Loop) -> bool:
    """Whether a loop counts: a loop over models or folds is none."""
    if isinstance(loop, ast.While):
        return True
    return any(
        isinstance(node, ast.Call) and last_word(node.func) in _COUNTS
        for node in ast.walk(loop.iter)
    )


def _trains(reach: Reach, batches: ast.AST) -> bool:
    """Whether what is done with the batches is training."""
    if isinstance(batches, ast.Call):
        name = last_word(batches.func)
        functions = reach.functions(name)
        if functions:
            return any(is_backward(node) for node in reach.nodes(functions, sure=True))
        return "train" in name.lower() and not _EVALUATES.search(name)
    return any(is_backward(node) for node in reach.nodes([batches], sure=True))


def _telling(module: Module) -> list[ast.AST]:
    """Return where `set_epoch` is spoken of."""
    return [
        node for node in module.nodes(ast.Attribute, ast.Name, ast.Constant) if _is_set_epoch(node)
    ]


def _is_set_epoch(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return bool(node.value == "set_epoch")
    return isinstance(node, ast.Attribute | ast.Name) and last_word(node) == "set_epoch"


def _tells(module: Module, sampler: ast.Call, node: ast.AST) -> bool:
    """Whether a node may tell a sampler its epoch: a `set_epoch` that is not another one's."""
    if not _is_set_epoch(node):
        return False
    if not isinstance(node, ast.Attribute) or node not in module.parents:
        return True
    made = module.definitions(node.value)
    return not made or not all(
        isinstance(each, ast.Call) and each is not sampler and module.resolve(each.func) == _SAMPLER
        for each in made
    )


def _hit(module: Module, loop: Loop, sampler: ast.Call, loader: ast.Call, batches: ast.AST) -> Hit:
    name = _assigned_to(module, sampler)
    epoch = written(loop.target) if isinstance(loop, ast.For | ast.AsyncFor) else None
    shown = f"`{name}`" if name else f"the DistributedSampler of line {sampler.lineno}"
    call = f"{name or 'loader.sampler'}.set_epoch({epoch or 'epoch'})"
    return Hit(
        rule=RULE_ID,
        node=loop,
        message=(
            f"the loop over epochs never calls `set_epoch` of {shown}: every epoch has the "
            "same order and gives each rank the same samples"
        ),
        evidence={
            "sampler": name or "",
            "sampler_line": sampler.lineno,
            "loader_line": loader.lineno,
            "batches_line": getattr(batches, "lineno", loop.lineno),
        },
        remedy=f"Call `{call}` at the top of the loop.",
        fix=_fix(module, loop, sampler, name, epoch),
    )


def _assigned_to(module: Module, node: ast.expr) -> str | None:
    """Return the name that a call's result is kept under."""
    parent = module.parents[node]
    while isinstance(parent, ast.IfExp | ast.BoolOp):
        parent = module.parents[parent]
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
        return written(parent.targets[0])
    return None


def _fix(
    module: Module, loop: Loop, sampler: ast.Call, name: str | None, epoch: str | None
) -> Fix | None:
    """Return the missing call, where the name can only be this sampler."""
    if name is None or epoch is None or "." in name or not isinstance(loop, ast.For):
        return None
    if body_around(module, loop) is not body_around(module, sampler):
        return None
    if not isinstance(module.parents[sampler], ast.Assign):
        return None
    bound = [
        node
        for node in inside([body_around(module, loop)])
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
    ]
    statement = module.statement(sampler)
    before = any(each is statement for each in _block_of(module, loop))
    if len(bound) != 1 or not before or name in names_in(loop.target):
        return None
    text = f"{name}.set_epoch({epoch})"
    return Fix(what=f"call {text} in each epoch", edits=(InsertFirst(block=loop, text=text),))


def _block_of(module: Module, node: ast.stmt) -> list[ast.stmt]:
    """Return the statements before a statement in its own block and the blocks around it."""
    found: list[ast.stmt] = []
    child: ast.AST = node
    while (parent := module.parents.get(child)) is not None:
        for block in ("body", "orelse", "finalbody"):
            statements = getattr(parent, block, None)
            if isinstance(statements, list) and any(each is child for each in statements):
                for each in statements:
                    if each is child:
                        break
                    found.append(each)
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
            break
        child = parent
    return found

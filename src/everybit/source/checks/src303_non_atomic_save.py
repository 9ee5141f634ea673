"""SRC303: a checkpoint that is written over the one before it."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Severity
from everybit.source.checks.file_name import FileName, file_name
from everybit.source.checks.index import FUNCTIONS, holder, once
from everybit.source.checks.test_code import is_test
from everybit.source.hit import Hit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.source.calls import CallSite
    from everybit.source.module import Module

RULE_ID: Final = "SRC303"
WORDS: Final = ("save",)

#: Names that stay the same while what they hold is written again and again.
_STAYS: Final = re.compile(r"(?:^|[^a-z])(?:latest|last|best|newest)(?:[^a-z]|$)", re.IGNORECASE)
#: What is lost where it is lost.
_STATE: Final = re.compile(
    r"state|check_?point|ckpt|chkpt|model|weights|params|network|snapshot|resume", re.IGNORECASE
)
#: A name that is not the final one.
_TEMPORARY: Final = re.compile(r"te?mp|\.part\b|partial|\bbuf(?:fer)?\b|bytesio|\.new\b|incomplete")
_RENAMES: Final = ("os.replace", "os.rename", "os.renames", "os.link", "shutil.move", "shutil.copy")
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)


def check(module: Module) -> Iterator[Hit]:
    """Yield the saves to a name that stays the same, without a rename in the same function."""
    if is_test(module):
        return
    for site in module.calls():
        if site.name != "torch.save" or site.indirect:
            continue
        target = site.argument("f", position=1).node
        if target is None:
            continue
        loops = tuple(_loops(module, site.node))
        name = file_name(module, target, _changing(module, loops))
        if (
            name is None
            or not _stays(module, site, name, loops)
            or holder(module, site.node) in _renaming(module)
        ):
            continue
        yield _hit(site, name, in_loop=bool(loops), loaded=name.text in _loaded(module))


def _hit(site: CallSite, name: FileName, *, in_loop: bool, loaded: bool) -> Hit:
    when = " in every turn of the loop" if in_loop else " at every save"
    return Hit(
        rule=RULE_ID,
        node=site.node,
        message=(
            f"torch.save writes over {name.shown!r}{when}: killed meanwhile, it leaves neither "
            "the old checkpoint nor the new one"
        ),
        evidence={"name": name.shown, "in_loop": in_loop, "loaded_again": loaded},
        severity=Severity.WARNING if in_loop and loaded else None,
    )


def _stays(module: Module, site: CallSite, name: FileName, loops: tuple[ast.AST, ...]) -> bool:
    if name.counted or _TEMPORARY.search(name.words):
        return False
    if name.constant and loops and _is_checkpoint(site, name):
        return True
    if _STAYS.search(name.shown) is None:
        return False
    # Outside of a loop the word alone says that it is written again: not after the training
    # loop of the same function, and not in a script's own body, which runs once.
    function = holder(module, site.node)
    if loops:
        return True
    if function is module.tree:
        return False
    return _first_loops(module).get(function, site.node.lineno) >= site.node.lineno


def _is_checkpoint(site: CallSite, name: FileName) -> bool:
    """Return whether what is saved is a state to go on from, by its name or the file's."""
    saved = site.argument("obj", position=0).node
    if saved is not None and _STATE.search(ast.unparse(saved)) is not None:
        return True
    return isinstance(saved, ast.Dict) or _STATE.search(name.text) is not None


@once
def _first_loops(module: Module) -> dict[ast.AST, int]:
    """Return the line of the first loop of each function."""
    found: dict[ast.AST, int] = {}
    for loop in module.nodes(*_LOOPS):
        found.setdefault(holder(module, loop), loop.lineno)
    return found


def _loops(module: Module, node: ast.AST) -> Iterator[ast.AST]:
    """Yield the loops around a node within its function."""
    child = node
    for each in module.ancestors(node):
        if isinstance(each, FUNCTIONS):
            return
        if isinstance(each, _LOOPS) and any(child is inner for inner in each.body):
            yield each
        child = each


def _changing(module: Module, loops: tuple[ast.AST, ...]) -> frozenset[str]:
    """Return the names that are given a value inside of the loops."""
    return frozenset(name for loop in loops for name in _stored(module).get(loop, ()))


@once
def _stored(module: Module) -> dict[ast.AST, set[str]]:
    found: dict[ast.AST, set[str]] = {}
    for node in module.nodes(ast.Name):
        if isinstance(node.ctx, ast.Store):
            for each in module.ancestors(node):
                if isinstance(each, _LOOPS):
                    found.setdefault(each, set()).add(node.id)
    return found


@once
def _renaming(module: Module) -> frozenset[ast.AST]:
    """Return the functions that rename or copy something: it may be what they saved."""
    found: set[ast.AST] = set()
    for call in module.call_nodes:
        attr = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if (
            attr == "rename"
            or (attr == "replace" and len(call.args) == 1)
            or _renames(module, call)
        ):
            found.add(holder(module, call))
    return frozenset(found)


def _renames(module: Module, call: ast.Call) -> bool:
    return any(name.startswith(_RENAMES) for name in module.resolve_all(call.func))


@once
def _loaded(module: Module) -> frozenset[str]:
    """Return the names of files that the module loads by `torch.load`."""
    found: set[str] = set()
    for site in module.calls():
        source = site.argument("f", position=0).node if site.name == "torch.load" else None
        name = file_name(module, source, frozenset()) if source is not None else None
        if name is not None:
            found.add(name.text)
    return frozenset(found)

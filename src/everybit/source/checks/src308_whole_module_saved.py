"""SRC308: a whole module, optimizer or scheduler that is pickled."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from everybit.source.checks.live_object import live_object
from everybit.source.checks.round_trip import is_read_back
from everybit.source.checks.test_code import is_test
from everybit.source.hit import Fix, Hit, ReplaceExpression

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.source.calls import CallSite
    from everybit.source.module import Module

RULE_ID: Final = "SRC308"
WORDS: Final = ("save",)
_MAX_DEPTH: Final = 4


def check(module: Module) -> Iterator[Hit]:
    """Yield the calls of `torch.save` that are given a live object, each once."""
    if is_test(module):
        return
    for site in module.calls():
        if site.name != "torch.save" or site.indirect:
            continue
        saved = site.argument("obj", position=0).node
        found = list(_live(module, saved)) if saved is not None else []
        if not found or is_read_back(module, site.node):
            continue
        (where, node, how), *others = found
        named = " and ".join([_said(where, node), *(_said(w, n) for w, n, _ in others)])
        yield Hit(
            rule=RULE_ID,
            node=site.node,
            message=f"torch.save pickles {named} whole ({how}), not its state_dict()",
            evidence={
                "objects": [ast.unparse(node)[:80] for _, node, _ in found],
                "known_by": how,
            },
            fix=_fix(site, node) if saved is node else None,
        )


def _said(key: str, node: ast.expr) -> str:
    text = ast.unparse(node)
    text = text if len(text) <= 40 else f"{text[:37]}..."
    return f"{text} (under {key!r})" if key else text


def _live(
    module: Module, node: ast.expr, key: str = "", depth: int = 0
) -> Iterator[tuple[str, ast.expr, str]]:
    """Yield the live objects in what is saved: the key they lie under, they, how it is known."""
    if depth > _MAX_DEPTH:
        return
    match node:
        case ast.Dict(keys=keys, values=values):
            for each, value in zip(keys, values, strict=True):
                name = str(each.value) if isinstance(each, ast.Constant) else key
                yield from _live(module, value, name, depth + 1)
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            for element in elements:
                yield from _live(module, element, key, depth + 1)
        case ast.Call(func=ast.Name(id="dict"), keywords=keywords):
            for keyword in keywords:
                yield from _live(module, keyword.value, keyword.arg or key, depth + 1)
        case ast.Name():
            written = [v for v in module.definitions(node) if isinstance(v, ast.Dict)]
            if len(written) == 1 and len(module.definitions(node)) == 1:
                yield from _live(module, written[0], key, depth + 1)
                return
            how = live_object(module, node)
            if how:
                yield key, node, how
        case _:
            how = live_object(module, node)
            if how:
                yield key, node, how


def _fix(site: CallSite, saved: ast.expr) -> Fix | None:
    """Return the fix where every load of the same file in sight takes the state dict at once."""
    module = site.module
    path = site.argument("f", position=1).node
    if path is None or not module.constants(path).values:
        return None
    name = module.constants(path).values
    edits = [ReplaceExpression(node=saved, text=f"{module.source(saved)}.state_dict()")]
    loads = 0
    for each in module.calls():
        if each.name != "torch.load":
            continue
        source = each.argument("f", position=0).node
        if source is None or module.constants(source).values != name:
            continue
        attribute = module.parents.get(each.node)
        outer = module.parents.get(attribute) if attribute is not None else None
        if not (
            isinstance(attribute, ast.Attribute)
            and attribute.attr == "state_dict"
            and isinstance(outer, ast.Call)
            and not outer.args
        ):
            return None
        loads += 1
        edits.append(ReplaceExpression(node=outer, text=_safe(module, each.node)))
    if not loads:
        return None
    return Fix(what="save and load the state dict", edits=tuple(edits))


def _safe(module: Module, call: ast.Call) -> str:
    """Return a load as it was, with `weights_only=True`."""
    words = [module.source(value) for value in call.args]
    words += [
        f"{keyword.arg}={module.source(keyword.value)}"
        if keyword.arg
        else f"**{module.source(keyword.value)}"
        for keyword in call.keywords
        if keyword.arg != "weights_only"
    ]
    return f"{module.source(call.func)}({', '.join([*words, 'weights_only=True'])})"

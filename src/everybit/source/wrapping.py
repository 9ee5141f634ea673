"""Functions of the project that hand their arguments on to a function of a library."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from everybit.source.calls import CallSite
from everybit.source.canonical import KNOWN_LIBRARIES, top_level
from everybit.source.entries import OPEN, Entries, Value, entries_of
from everybit.source.leading import Wanted, callable_of
from everybit.source.meaning import UNKNOWNS, Defined, External, Given, Meanings
from everybit.source.resolving import Frame
from everybit.source.scopes import defaults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.source.module import Module

_MAX_DEPTH: Final = 4
#: What the names of functions hold that read or write what can hold code.
_WORDS: Final = re.compile(
    r"load|pickl|pretrained|hub|restore|read_|dump|save|pipeline|Importer|SentenceTransformer"
)
_KEYWORDS: Final = frozenset({"weights_only", "trust_remote_code", "allow_pickle"})
#: Whatever reads or writes what can hold code.
ANY_CODE: Final = Wanted(
    call=lambda name, _: _WORDS.search(name) is not None,
    handed=lambda _: True,
    keyword=lambda name, _: name in _KEYWORDS,
)
#: Calls looked at for the sake of one call: wrappers of wrappers multiply.
_MAX_CALLS: Final = 256


def wrapped_calls(
    module: Module,
    node: ast.Call,
    function: Defined,
    given: tuple[Given, ...],
    wanted: Wanted,
    *,
    sure: bool,
    outer: Frame | None = None,
    left: list[int] | None = None,
    depth: int = 0,
) -> Iterator[CallSite]:
    """Yield the calls of known functions that one call of a function of the project makes.

    Args:
        module: The file of the call.
        node: The call.
        function: The function of the project.
        given: The call's arguments.
        wanted: What is looked for in the functions.
        sure: Whether the call can mean nothing else.
        outer: What the parameters around the call mean, where it lies in a wrapper itself.
        left: How many more calls are looked at, shared by all that is followed.
        depth: Wrappers followed so far.
    """
    left = [_MAX_CALLS] if left is None else left
    if depth >= _MAX_DEPTH:
        return
    body = callable_of(function)
    if body is None:
        return
    where, inner_function, filled = body
    leads = module.project.leads(wanted)
    further = _MAX_DEPTH - 1 - depth
    if not leads.follows((where, inner_function), given, outer, further):
        return
    frame = Frame(
        function=inner_function,
        parameters=_parameters(inner_function, given, outer, filled=filled, where=where),
        keywords=_gathered(inner_function, given, outer, filled=filled),
    )
    for inner in leads.calls((where, inner_function), further):
        left[0] -= 1
        if left[0] < 0:
            return
        for meaning in where.resolver.meanings(inner.func, frame):
            inner_given = (
                *(meaning.bound if isinstance(meaning, External | Defined) else ()),
                *where.resolver.given(inner),
            )
            if isinstance(meaning, External) and top_level(meaning.name) in KNOWN_LIBRARIES:
                yield CallSite(
                    module=module,
                    node=node,
                    name=meaning.name,
                    sure=sure,
                    given=inner_given,
                    wrapper=function.name,
                    inner=(where, inner),
                    frame=frame,
                )
            elif isinstance(meaning, Defined) and meaning.node is not function.node:
                for site in wrapped_calls(
                    where,
                    inner,
                    meaning,
                    inner_given,
                    wanted,
                    sure=sure,
                    outer=frame,
                    left=left,
                    depth=depth + 1,
                ):
                    yield CallSite(
                        module=module,
                        node=node,
                        name=site.name,
                        sure=sure,
                        given=site.given,
                        wrapper=function.name,
                        inner=site.inner,
                        frame=site.frame,
                    )


def _names(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[str]:
    return [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]


def _parameters(
    function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
    given: tuple[Given, ...],
    outer: Frame | None,
    *,
    filled: bool,
    where: Module,
) -> dict[str, Meanings]:
    """Return what each parameter means in one call."""
    names = _names(function)[1 if filled else 0 :]
    only = [arg.arg for arg in function.args.kwonlyargs]
    usual = defaults(function.args)
    nowhere = ast.Call(func=ast.Name(id=""), args=[], keywords=[])
    site = CallSite(module=where, node=nowhere, name="", given=given, frame=outer)
    found: dict[str, Meanings] = {}
    for place, name in [*enumerate(names), *((None, name) for name in only)]:
        value = site.value(name, place)
        meanings = value.meanings
        if value.absent and name in usual:
            meanings = (*meanings, *where.resolver.meanings(usual[name]))
        found[name] = tuple(dict.fromkeys(meanings)) or UNKNOWNS
    return found


def _gathered(
    function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
    given: tuple[Given, ...],
    outer: Frame | None,
    *,
    filled: bool,
) -> Entries:
    """Return what arrives in `**kwargs`."""
    if function.args.kwarg is None:
        return OPEN
    taken = {*_names(function)[1 if filled else 0 :], *(a.arg for a in function.args.kwonlyargs)}
    found = Entries()
    for each in given:
        if each.starred == "**":
            found = found.over(entries_of(each.module, each.node, each.node, outer))
        elif each.name is not None and each.name not in taken:
            value = Value(each.module.resolver.meanings(each.node, outer), node=each.node)
            found = found.over(Entries({each.name: value}))
    return Entries({k: v for k, v in found.items.items() if k not in taken}, found.open)

"""A file that the same function writes where it is not there yet: a cache of its own."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Severity
from everybit.source.checks.flow import conditions, end, exclude, place
from everybit.source.checks.index import holder
from everybit.source.checks.round_trip import names_of, written_in

if TYPE_CHECKING:
    from everybit.source.checks.load import Load
    from everybit.source.module import Module

#: What asks whether a file is there.
_ASKS: Final = frozenset({"exists", "isfile", "is_file", "lexists"})
_LEAVES: Final = (ast.Return, ast.Raise, ast.Continue, ast.Break)
#: Saves to one name that are looked at.
_MAX_SAVES: Final = 16
_CACHE: Final = (
    "; the same function writes the file where it is missing, so it is as safe as the folder that "
    "it lies in"
)


def as_cache(module: Module, load: Load) -> Load:
    """Return a load as a note where its file is the function's own cache, else as it is."""
    if not isinstance(load.node, ast.Call) or load.inner is not None:
        return load
    if not is_cache(module, load.node):
        return load
    return replace(
        load,
        severity=Severity.NOTE,
        message=load.message + _CACHE,
        evidence={**load.evidence, "cache": True},
    )


def is_cache(module: Module, load: ast.Call) -> bool:
    """Return whether a function loads a file only where it does not write it.

    That is `if exists(path): load(path)`, `else: save(path)`, and the forms that come to the same:
    the load returns before the save, or the save stands under the test alone.
    """
    names = names_of(module, load)
    written = written_in(module, holder(module, load))
    saves = [save for name in names for save in written.get(name, ())]
    return any(
        save is not load and _instead(module, load, save, names) for save in saves[:_MAX_SAVES]
    )


def _instead(module: Module, load: ast.Call, save: ast.Call, names: tuple[str, ...]) -> bool:
    if exclude(module, load, save):
        tests = [test.test for test, _ in conditions(module, load)]
        return any(_asks_for(module, test, names) for test in tests)
    if end(load) <= place(save):
        return any(
            _asks_for(module, test.test, names)
            and isinstance((test.body if inside else test.orelse)[-1], _LEAVES)
            for test, inside in conditions(module, load)
        )
    return any(_asks_for(module, test.test, names) for test, _ in conditions(module, save))


def _asks_for(module: Module, test: ast.expr, names: tuple[str, ...]) -> bool:
    """Return whether a test asks if the file is there that one of these expressions names."""
    for call in ast.walk(test):
        if not isinstance(call, ast.Call):
            continue
        func = call.func
        word = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
        if word not in _ASKS:
            continue
        asked = call.args[0] if call.args else getattr(func, "value", None)
        if asked is not None and set(names_of(module, asked)) & set(names):
            return True
    return False

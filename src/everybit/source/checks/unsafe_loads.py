"""All unsafe loads of a file, and which of them follow a load that was refused."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Severity
from everybit.source.checks import pickle_loads, remote, torch_loads
from everybit.source.checks.consent import as_asked
from everybit.source.checks.fallback import find_fallbacks, for_old_versions
from everybit.source.checks.index import once
from everybit.source.checks.own_cache import as_cache
from everybit.source.checks.patches import patched_functions
from everybit.source.checks.sites import calls_wrappers, is_of_project, sites
from everybit.source.checks.test_code import is_test

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.source.checks.fallback import Fallback
    from everybit.source.checks.load import Load
    from everybit.source.module import Module

#: What a file must hold for one of its loads to be unsafe.
WORDS: Final = (
    "load", "weights_only", "pickle", "Unpickler", "shelve", "PackageImporter", "use_safetensors",
    "trust_remote_code", "hub", "dcp_to_torch_save", "torch_save_to_dcp", "read_metadata",
    "BroadcastingTorchSaveReader", "allow_pickle", "msgpack_numpy",
)  # fmt: skip
#: The same, closer: a file without one of these is not searched call by call.
_LOADS: Final = re.compile(
    r"\b_?loads?\b|load_(?:state_dict_from_url|url|learner|from_checkpoint|state\b|session|module)"
    r"|[Uu]npickler|read_pickle|jsonpickle|shelve|PackageImporter|trust_remote_code|weights_only"
    r"|use_safetensors|allow_pickle|dcp_to_torch_save|torch_save_to_dcp|read_metadata|\bhub\b"
    r"|BroadcastingTorchSaveReader|msgpack_numpy"
)


_OF_FILES: Final = (torch_loads.RULE_ID, pickle_loads.RULE_ID)


@once
def unsafe_loads(module: Module) -> tuple[Load, ...]:
    """Return the unsafe loads of a file, each once for each rule, in the order of the text.

    What stands in a function that replaces `torch.load` is left to the rule of the replacement.
    """
    if not _LOADS.search(module.text) and not calls_wrappers(module):
        return ()
    return tuple(_find(module))


def _find(module: Module) -> Iterator[Load]:
    inside = patched_functions(module)
    seen: set[tuple[str, ast.AST]] = set()
    for load in _each(module):
        if (load.rule, load.node) in seen:
            continue
        if load.rule == torch_loads.RULE_ID and any(
            each in inside for each in (load.node, *module.ancestors(load.node))
        ):
            continue
        if load.by_default and for_old_versions(module, load.node):
            continue
        seen.add((load.rule, load.node))
        yield _weighed(module, load) if load.rule in _OF_FILES else load


def _weighed(module: Module, load: Load) -> Load:
    """Return a load as a note where its file is most likely the program's own."""
    if isinstance(load.node, ast.Call) and not load.by_default and is_test(module):
        return replace(load, severity=Severity.NOTE, evidence={**load.evidence, "test": True})
    return as_asked(module, as_cache(module, load))


def _each(module: Module) -> Iterator[Load]:
    for site in sites(module):
        for judge in (torch_loads.judge_site, pickle_loads.judge_pickle, remote.judge_remote):
            load = judge(site)
            if load is not None:
                yield load
    for site in module.calls():
        if is_of_project(site):
            load = remote.judge_own(site)
            if load is not None:
                yield load
    yield from pickle_loads.judge_unpicklers(module)


@once
def fallbacks(module: Module) -> dict[Load, Fallback]:
    """Return the unsafe loads that follow a safer one that failed."""
    return find_fallbacks(module, unsafe_loads(module))


def standing_alone(module: Module, rule: str) -> Iterator[Load]:
    """Yield the unsafe loads of one rule that follow no failed load."""
    follow = fallbacks(module)
    for load in unsafe_loads(module):
        if load.rule == rule and load not in follow and not _told_inside(load):
            yield load


def _told_inside(load: Load) -> bool:
    """Return whether the call inside the wrapper is unsafe by itself, under whatever rule."""
    if load.inner is None:
        return False
    module, call = load.inner
    return any(each.node is call for each in unsafe_loads(module))

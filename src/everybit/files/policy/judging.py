"""The judgement of one name that a pickle reaches: safe, unknown or dangerous, and what it does."""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from everybit.files.pickles.file_code import CLASS_BUILDERS, FUNCTION_BUILDERS
from everybit.files.pickles.naming import READERS
from everybit.files.pickles.reach import Via
from everybit.files.policy.dangers import does_by_name, does_by_word, does_inside
from everybit.files.policy.effects import (
    ATTRIBUTES,
    BROWSER,
    BUILDS_CODE,
    CALLS,
    CODE,
    COMPUTED,
    DEBUGGER,
    FILE_CODE,
    INSTALLS,
    METHODS,
)
from everybit.files.policy.safe import is_safe, only_named

if TYPE_CHECKING:
    from everybit.files.pickles.reach import Reached

#: What is known of a longer name is not kept for the next file.
_MAX_KEPT: Final = 400
#: Objects that read attributes and items later, by names that are judged where they are known.
_GETTERS: Final = frozenset({
    "operator.attrgetter", "_operator.attrgetter", "operator.itemgetter", "_operator.itemgetter",
})  # fmt: skip
#: What some modules do as soon as they are imported.
_BY_IMPORT: Final = frozenset({BROWSER, CODE, DEBUGGER, INSTALLS})
#: dill's way to write arrays: what it calls is judged by its own name.
_MAKES_ARRAYS: Final = frozenset({"dill._dill._create_array"})
#: Cloudpickle's and dill's way to write functions and classes; none of it runs what it builds.
_BUILDING: Final = ("cloudpickle.cloudpickle.", "cloudpickle.cloudpickle_fast.", "dill._dill.")
_BUILDER_NAMES: Final = (
    "_make_function _make_skel_func _fill_function _function_setstate _make_cell _make_empty_cell "
    "_make_skeleton_class _make_skeleton_enum _class_setstate _rehydrate_skeleton_class "
    "_builtin_type _make_dict_keys _make_dict_values _make_dict_items parametrized_type_hint "
    "_make_typevar _get_cell_contents _lookup_class_or_track _create_function _create_code "
    "_create_type _create_cell _load_type _empty_cell_value _make_slotless_dict cell_set "
    "_gen_ellipsis _gen_not_implemented _create_parametrized_type_hint _reconstruct_method"
)
_BUILDERS: Final = frozenset(_BUILDER_NAMES.split())
_MAKERS: Final = FUNCTION_BUILDERS | CLASS_BUILDERS | {"types.CodeType", "types.CellType"}


class Danger(StrEnum):
    """What is known of a name. The order of definition is the order of danger."""

    SAFE = "safe"
    UNKNOWN = "unknown"
    DANGEROUS = "dangerous"


class Judgement:
    """What a name may do.

    Attributes:
        danger: Known safe, unknown or dangerous.
        does: What it would do, to complete "it ..."; "" where it is harmless or not known.
        library: The top package that it comes from.
    """

    __slots__ = ("danger", "does", "library")

    def __init__(self, danger: Danger, does: str, library: str) -> None:
        self.danger = danger
        self.does = does
        self.library = library


_SAFE: Final = (Danger.SAFE, "")
_UNKNOWN: Final = (Danger.UNKNOWN, "")
_DANGEROUS: Final = Danger.DANGEROUS
_CHANGE: Final = Via.CHANGE
_RESULT: Final = Via.RESULT


def judge(reached: Reached) -> Judgement:
    """Judge one name. A name in no table is unknown; nothing is imported to look at it."""
    module, name = reached.module, reached.name
    if reached.via is _CHANGE:
        kind = reached.arguments[0] if reached.shown else "build"
        what = "attributes" if kind == "build" else "items"
        does = f"sets {what} of an object that the running program shares"
        return Judgement(_DANGEROUS, does, module.partition(".")[0])
    by_name = _judge_short if len(module) + len(name) <= _MAX_KEPT else _judge
    return by_name(module, name, reached.num_calls > 0, reached.sure, reached.via is _RESULT)


def _judge(module: str, name: str, called: bool, sure: bool, result: bool) -> Judgement:
    danger, does = _weigh(module, name, called, sure, result)
    return Judgement(danger, does, module.partition(".")[0])


_judge_short: Final = lru_cache(maxsize=4096)(_judge)


def _weigh(module: str, path: str, called: bool, sure: bool, result: bool) -> tuple[Danger, str]:
    name = f"{module}.{path}" if path else module
    if name in READERS and not result:
        if not (sure and called):
            return Danger.DANGEROUS, COMPUTED if called else ATTRIBUTES
        # Where all of it is constant, the name that it gives is judged in its place.
        return (Danger.UNKNOWN, ATTRIBUTES) if name in _GETTERS else (Danger.SAFE, "")
    if name in _MAKES_ARRAYS:
        return Danger.UNKNOWN, CALLS
    if is_safe(module, path):
        return (Danger.UNKNOWN, METHODS) if called and name in only_named() else _SAFE
    if module == "?" or ("?" in path and "?" in path.split(".")):
        return Danger.DANGEROUS, COMPUTED
    builds = _built(name, called)
    if builds is not None:
        return builds
    inside = does_inside(module, path)
    does = inside or does_by_name(name) or (does_by_word(path) if called else "")
    if does and not path and not called and does not in _BY_IMPORT:
        # A module alone, as cloudpickle writes one that a function uses: what is called in it, or
        # taken from it, has a name of its own.
        return Danger.UNKNOWN, ""
    return (_DANGEROUS, does) if does else _UNKNOWN


def _built(name: str, called: bool) -> tuple[Danger, str] | None:
    """Judge what builds code, what was built, and what is done with that."""
    base, call, rest = name.partition("()")
    if base not in _MAKERS:
        if not base.startswith(_BUILDING):
            return None
        prefix, _, last = base.rpartition(".")
        builds = last in _BUILDERS and f"{prefix}." in _BUILDING
        return (Danger.UNKNOWN, BUILDS_CODE) if builds else None
    if base in FUNCTION_BUILDERS and call:
        return Danger.DANGEROUS, FILE_CODE
    if base in CLASS_BUILDERS and call:
        # A class from the file or an instance of it; a method of it is named where it runs.
        runs = called and bool(rest.strip("()"))
        return (Danger.DANGEROUS, FILE_CODE) if runs else (Danger.UNKNOWN, BUILDS_CODE)
    return Danger.UNKNOWN, BUILDS_CODE

"""Lookups in the tables of dangerous names: exact, by module, and along a dotted path."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from everybit.files.policy import dangers_libraries, dangers_python, effects
from everybit.files.policy.dangers_python import FILE_METHODS, INTERNAL_ATTRIBUTES, TELLING_NAMES

_MAX_PARTS: Final = 40
#: The name since NumPy 2 of what was `numpy.core`.
_NUMPY_CORE: Final = re.compile(r"^numpy\._core(?=\.|$)")


def _names() -> dict[str, str]:
    found: dict[str, str] = {}
    for table in (dangers_libraries.NAMES, dangers_python.NAMES):
        for module, kinds in table.items():
            for does, names in kinds.items():
                found |= {f"{module}.{name}": does for name in names.split()}
    builtins = {key: does for key, does in found.items() if key.startswith("builtins.")}
    return found | {f"__builtin__.{key[9:]}": does for key, does in builtins.items()}


def _modules() -> dict[str, str]:
    tables = (dangers_libraries.MODULES, dangers_python.MODULES)
    return {
        module: does
        for table in tables
        for does, modules in table.items()
        for module in modules.split()
    }


@cache
def _all() -> dict[str, str]:
    """Return what names and whole modules do; a name counts where it is called as a module is."""
    return _modules() | _names()


@cache
def _telling() -> dict[str, str]:
    return {name: does for does, names in TELLING_NAMES.items() for name in names.split()}


def does_by_name(qualified: str) -> str:
    """Return what a qualified name does by the tables; "" where it is in none of them."""
    known = _all()
    prefix = qualified.replace("()", "")
    if prefix.startswith("numpy._core"):
        prefix = _NUMPY_CORE.sub("numpy.core", prefix)
    if prefix.count(".") >= _MAX_PARTS:
        prefix = ".".join(prefix.split(".")[:_MAX_PARTS])
    while prefix:
        does = known.get(prefix)
        if does:
            return does
        prefix = prefix.rpartition(".")[0]
    return ""


def does_inside(module: str, name: str) -> str:
    """Return what a dotted name does that leads through another module, or into internals.

    `torch.serialization.os.system` is `os.system`: modules hold what they import.
    """
    if name.isidentifier() and name not in _LEADING and name not in INTERNAL_ATTRIBUTES:
        return ""  # a plain name, which leads through nothing
    parts = name.replace("()", "").split(".")[:_MAX_PARTS]
    if module != "builtins" and any(part in INTERNAL_ATTRIBUTES for part in parts):
        return effects.INTERNALS
    if parts[-1] in FILE_METHODS and len(parts) > 1 and module.startswith(("torch", "numpy")):
        return effects.FILES
    for start in range(len(parts)):
        if parts[start] in _LEADING:
            does = does_by_name(".".join(parts[start:]))
            if does:
                return does
    return ""


def does_by_word(name: str) -> str:
    """Return what a function does by its bare name, wherever it lives; "" for a usual name."""
    return "" if "()" in name else _telling().get(name.rpartition(".")[2], "")


_LEADING_MODULES: Final = (
    "os sys subprocess posix nt shutil builtins __builtins__ importlib pickle _pickle ctypes "
    "socket runpy pty multiprocessing threading io inspect tempfile operator functools types "
    "marshal code codeop platform urllib http ssl pkgutil signal asyncio atexit"
)
_LEADING: Final = frozenset(_LEADING_MODULES.split())

"""The allow-list: which library a known-safe name belongs to."""

from __future__ import annotations

from functools import cache
from typing import Final

from everybit.files.policy import safe_libraries, safe_numpy, safe_python, safe_torch

#: What the allow-list was made from.
SOURCES: Final = {
    "Python": safe_python.VERSIONS,
    "NumPy": safe_numpy.VERSIONS,
    "PyTorch": safe_torch.VERSIONS,
    "libraries": safe_libraries.VERSIONS,
}


@cache
def safe_names() -> frozenset[str]:
    """Return every known-safe qualified name that is listed one by one."""
    tables = (safe_python.NAMES, safe_numpy.NAMES, safe_torch.NAMES, safe_libraries.NAMES)
    return frozenset(
        f"{module}.{name}"
        for table in tables
        for module, names in table.items()
        for name in names.split()
    )


@cache
def only_named() -> frozenset[str]:
    """Return the known-safe names that no pickler calls.

    They are kept as values (an activation, the type of a number). Called, they run methods of what
    they are given: `softmax(x, y)` is `x.softmax(y)`, and NumPy reads the memory that
    `x.__array_interface__` describes.
    """
    tables = (safe_python.NAMED, safe_numpy.NAMED, safe_torch.NAMED)
    return frozenset(
        f"{module}.{name}"
        for table in tables
        for module, names in table.items()
        for name in names.split()
    )


def is_safe(module: str, name: str) -> bool:
    """Return whether a name is known safe in a pickle: to name, and to call if picklers do."""
    if f"{module}.{name}" in safe_names():
        return True
    if not f"{module}.".startswith(safe_torch.CLASS_MODULES):
        return False
    # A class has a capital letter; a function that happens to live there is not let through.
    return name.isidentifier() and name[:1].isupper() and name not in safe_torch.IMPORTED

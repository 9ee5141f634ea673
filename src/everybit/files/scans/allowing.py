"""What `torch.serialization.safe_globals` needs for a file, and what each name can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.files.weights_only.acceptance import Refusal

_MAX_NAMES: Final = 40
_MAX_SHOWN: Final = 3

#: What building an object of a harmless name does.
_DOES: Final = {
    "argparse.Namespace": "keeps attributes",
    "builtins.bytes": "makes bytes",
    "builtins.frozenset": "makes a set",
    "builtins.slice": "makes a slice",
    "builtins.range": "makes a range",
    "datetime.datetime": "makes a time",
    "pathlib.PosixPath": "makes a path and opens nothing",
    "pathlib.WindowsPath": "makes a path and opens nothing",
    "pathlib.Path": "makes a path and opens nothing",
    "numpy._core.multiarray.scalar": "makes a NumPy number from bytes",
    "numpy.core.multiarray.scalar": "makes a NumPy number from bytes",
    "numpy._core.multiarray._reconstruct": "makes an empty NumPy array",
    "numpy.core.multiarray._reconstruct": "makes an empty NumPy array",
    "numpy.ndarray": "is filled with bytes from the file",
    "numpy.dtype": "makes a NumPy dtype",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """The names that lift every refusal of a file.

    Attributes:
        modules: What the call has to import.
        expressions: The items of the list, as Python.
        does: What each name does when it is built.
    """

    modules: tuple[str, ...]
    expressions: tuple[str, ...]
    does: tuple[str, ...]

    def advice(self, path: str) -> str:
        """Return how to load the file with exactly these names, as one clause."""
        imports = ", ".join(dict.fromkeys(self.modules))
        shown = ", ".join(self.expressions[:_MAX_SHOWN])
        left = len(self.expressions) - _MAX_SHOWN
        more = f", and {left} more (see evidence: safe_globals)" if left > 0 else ""
        return (
            "if you know who made the file, allow exactly these names around this one load: "
            f"`import {imports}` and `with torch.serialization.safe_globals([{shown}{more}]): "
            f'torch.load("{path}")` ({"; ".join(self.does[:_MAX_SHOWN])})'
        )


def allow(refusals: Sequence[Refusal]) -> Allowance | None:
    """Return what to allow; None where allowing names does not lift every refusal."""
    if not refusals or not all(refusal.by_name for refusal in refusals):
        return None
    names = list(dict.fromkeys(refusal.name for refusal in refusals))
    if len(names) > _MAX_NAMES:
        return None
    modules: list[str] = []
    expressions: list[str] = []
    for name in names:
        module, expression = _expression(name)
        if module:
            modules.append(module)
        expressions.append(expression)
    return Allowance(
        modules=(*modules, "torch"),
        expressions=tuple(expressions),
        does=tuple(f"{name} {does(name)}" for name in names),
    )


def does(name: str) -> str:
    """Return what building a known-safe name does."""
    if name in _DOES:
        return _DOES[name]
    if name.startswith("numpy.dtypes."):
        return "is a NumPy dtype"
    return "builds a value from what the file holds"


def _expression(name: str) -> tuple[str, str]:
    """Return the module to import for a name, and the item of the list.

    A name under which a class can no longer be found (NumPy 1's modules, Python 3.13's paths) goes
    in as a pair, with the name that the file uses.
    """
    module, _, attribute = name.rpartition(".")
    if module == "builtins":
        return "", attribute
    if module.startswith("numpy.core."):
        today = module.replace("numpy.core.", "numpy._core.", 1)
        return today, f'({today}.{attribute}, "{name}")'
    if module in ("pathlib", "pathlib._local"):
        return "pathlib", f'(pathlib.{attribute}, "{name}")'
    return module, name

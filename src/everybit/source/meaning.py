"""What an expression can mean: a name of a library, something of the project, a constant."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.source.module import Module

#: More possible meanings than this are as good as none.
MAX_MEANINGS: Final = 16

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
#: Constants that a meaning can hold (`None`, numbers, text, bytes, `...`).
Constant = str | bytes | int | float | complex | bool | None


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """An argument as it was written: at a call, or bound before by `functools.partial`.

    Attributes:
        module: Where it was written.
        node: The expression.
        name: The keyword; None for a positional one and for `**`.
        starred: `*` or `**`, or empty.
    """

    module: Module
    node: ast.expr
    name: str | None = None
    starred: str = ""


@dataclass(frozen=True, slots=True)
class External:
    """A dotted name outside the project; `()` stands for the result of a call.

    Attributes:
        name: `torch.load`, `pickle.Unpickler().load`, `open`.
        bound: Arguments already given, by `functools.partial`.
    """

    name: str
    bound: tuple[Given, ...] = ()


@dataclass(frozen=True, slots=True)
class Defined:
    """A function or class of the project, or an instance of such a class.

    Attributes:
        module: Where it is defined.
        node: Its definition.
        instance: Whether it is an instance of the class, not the class.
        method: Whether the first parameter is already filled (`obj.method`).
        bound: Arguments already given, by `functools.partial`.
    """

    module: Module
    node: FunctionNode | ast.ClassDef
    instance: bool = False
    method: bool = False
    bound: tuple[Given, ...] = ()

    @property
    def name(self) -> str:
        """Its dotted name, `pkg.mod.Class()` for an instance."""
        return f"{self.module.qualified(self.node)}{'()' if self.instance else ''}"


@dataclass(frozen=True, slots=True)
class Package:
    """A module of the project, or a folder of modules.

    Attributes:
        name: Its dotted name.
        module: The module; None for a folder without `__init__.py`.
        folder: Where the modules below it lie; None for a module that is a file.
    """

    name: str
    module: Module | None
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant.

    Attributes:
        value: What it is.
        kind: The type's name: `0`, `0.0` and `False` are equal to Python and are not the same.
    """

    value: Constant
    kind: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something else."""


Meaning = External | Defined | Package | Literal | Unknown
Meanings = tuple[Meaning, ...]

UNKNOWN: Final = Unknown()
UNKNOWNS: Final[Meanings] = (UNKNOWN,)


def literal(value: Constant) -> Literal:
    """Return the meaning of a constant."""
    return Literal(value, type(value).__name__)


def joined(*groups: Meanings) -> Meanings:
    """Return all that one of the groups means, each once; unknown beyond a bound."""
    found = dict.fromkeys(meaning for group in groups for meaning in group)
    if len(found) > MAX_MEANINGS:
        return UNKNOWNS
    return tuple(found)

"""Which files are tests: what they replace they put back, what they load they have made."""

from __future__ import annotations

import ast
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from everybit.source.checks.index import once

if TYPE_CHECKING:
    from everybit.source.module import Module

_NAME: Final = re.compile(r"(?:test_.*|.*_tests?|conftest)\.py")


@once
def is_test(module: Module) -> bool:
    """Return whether a file is a test, by its name or because it defines tests."""
    if _NAME.fullmatch(PurePath(module.path).name):
        return True
    return any(
        isinstance(function, ast.FunctionDef) and function.name.startswith("test_")
        for function in module.functions
    )

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
_LIBRARY: Final = re.compile(r"\b(?:import|from)\s+(?:pytest|unittest|hypothesis|absl\.testing)\b")
#: What pytest gives a test without an import.
_GIVEN: Final = frozenset({"tmp_path", "tmpdir", "tmp_path_factory", "monkeypatch", "capsys"})


@once
def is_test(module: Module) -> bool:
    """Return whether a file is a test, by its name or because it defines tests.

    `test_epoch(model, loader)` of a training script is none: tests know a library of tests, or
    take what such a library gives them.
    """
    if _NAME.fullmatch(PurePath(module.path).name):
        return True
    tests = [
        function
        for function in module.functions
        if isinstance(function, ast.FunctionDef) and function.name.startswith("test_")
    ]
    return bool(tests) and (
        _LIBRARY.search(module.text) is not None
        or any(arg.arg in _GIVEN for function in tests for arg in function.args.args)
    )

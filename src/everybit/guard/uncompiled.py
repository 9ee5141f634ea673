"""The Guard's own functions are not compiled: neither traced nor slowed down.

Where a compiled function breaks its graph (at `backward`, say), torch.compile goes on with every
Python function that is called from there, ours too.
"""

from __future__ import annotations

import sys
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

_PACKAGE = __name__.split(".", maxsplit=1)[0]

_FRAMES: Any = torch._C._dynamo.eval_frame

_done: set[str] = set()


def keep_uncompiled(*whole: Any) -> None:
    """Have torch.compile run every function of this package as it is.

    Args:
        *whole: Functions of which all that they call is run as it is, too.
    """
    for name, module in list(sys.modules.items()):
        if name not in _done and (name == _PACKAGE or name.startswith(f"{_PACKAGE}.")):
            _done.add(name)
            for code in _codes_of(module):
                _skip(code)
    for function in whole:
        _skip(function.__code__, callees=True)


def anything_is_compiled() -> bool:
    """Whether torch.compile has been at work, or been asked for, anywhere in the program.

    A function that is compiled as it is first called would be compiled with a hook in it, otherwise
    than without, and once more when the hook is gone. Compiled code that meets a dispatch mode runs
    eagerly instead, and gives other bits.
    """
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is not None and utils.counters["frames"]:
        return True
    frames = sys.modules.get("torch._dynamo.eval_frame")
    backends = getattr(frames, "cached_backends", None) or {}
    return any(backend is not None for backend in backends.values())


def _skip(code: CodeType, *, callees: bool = False) -> None:
    if hasattr(_FRAMES, "set_code_exec_strategy"):
        action = _FRAMES._FrameAction
        after = action.SKIP if callees else action.DEFAULT
        _FRAMES.set_code_exec_strategy(code, _FRAMES._FrameExecStrategy(action.SKIP, after))
    elif hasattr(_FRAMES, "skip_code"):  # torch 2.6
        _FRAMES.skip_code(code)


def _codes_of(module: ModuleType) -> Iterator[CodeType]:
    """Yield the code of every function written in a module, those within functions too."""
    found: list[Any] = []
    for value in list(vars(module).values()):
        if isinstance(value, type) and value.__module__ == module.__name__:
            found += vars(value).values()
        else:
            found.append(value)
    stack = []
    for value in found:
        inner = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        inner = getattr(inner, "__wrapped__", inner)  # contextmanager
        if isinstance(inner, FunctionType) and inner.__module__ == module.__name__:
            stack.append(inner.__code__)
    while stack:
        code = stack.pop()
        yield code
        stack += [constant for constant in code.co_consts if isinstance(constant, CodeType)]

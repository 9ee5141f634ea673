"""Whether hooks of the program pack what autograd saves for backward.

Newer versions of torch tell. Those before (2.6 among them) do not, and asking by saving a tensor
would call the program's hooks; so the two functions through which hooks come and go are counted.
"""

from __future__ import annotations

import functools
import threading
from typing import Any, Final

import torch

_TOLD: Final = "_top_saved_tensors_default_hooks"
_COMES: Final = "_push_saved_tensors_default_hooks"
_GOES: Final = "_pop_saved_tensors_default_hooks"


class _Depth(threading.local):
    """Hooks that are in force in a thread: torch keeps them by thread too."""

    hooks = 0


_depth: Final = _Depth()


def is_packed() -> bool:
    """Return whether tensors that are saved now, in this thread, go through hooks."""
    tell = getattr(torch._C._autograd, _TOLD, None)
    return _depth.hooks > 0 if tell is None else tell(True) is not None


def count_hooks() -> None:
    """Begin to count hooks, where torch does not tell of them; those from before are not seen."""
    autograd: Any = torch._C._autograd
    if hasattr(autograd, _TOLD) or hasattr(getattr(autograd, _COMES), "__wrapped__"):
        return
    for name, change in ((_COMES, 1), (_GOES, -1)):
        setattr(autograd, name, _counted(getattr(autograd, name), change))


def _counted(original: Any, change: int) -> Any:
    @functools.wraps(original)
    def counted(*args: Any) -> Any:
        result = original(*args)
        _depth.hooks = max(0, _depth.hooks + change)
        return result

    return counted


count_hooks()

"""Saving is a use of the carried state: it is tested before it goes into a state_dict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from everybit.guard.tracked import unwrap

if TYPE_CHECKING:
    from collections.abc import Callable


class Saves:
    """Call back before a watched module or optimizer gives its state_dict.

    Args:
        before: What to call.
    """

    def __init__(self, before: Callable[[], None]) -> None:
        self._before = before
        self._hooked: dict[int, Any] = {}

    def watch(self, item: torch.nn.Module | torch.optim.Optimizer) -> None:
        """Hook one module or optimizer; a second call for the same one does nothing."""
        inner = unwrap(item) if isinstance(item, torch.nn.Module) else item
        if id(inner) not in self._hooked:
            self._hooked[id(inner)] = inner.register_state_dict_pre_hook(self._call)

    def remove(self) -> None:
        """Unhook all."""
        for handle in self._hooked.values():
            handle.remove()
        self._hooked.clear()

    def _call(self, *_: Any) -> None:
        if not torch.compiler.is_compiling():
            self._before()

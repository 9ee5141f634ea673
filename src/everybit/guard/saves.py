"""Copies of the carried state are a use of it: it is tested before it goes into one.

A copy is a state_dict, a file, or an average of weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.optim.swa_utils import AveragedModel

from everybit.guard.patches import Patches

if TYPE_CHECKING:
    from collections.abc import Callable

    Saved = torch.nn.Module | torch.optim.Optimizer


class Saves:
    """Call back before a watched module, a part of one, or an optimizer gives its state_dict.

    `torch.save` counts too: it may be given the module itself. So does
    `AveragedModel.update_parameters`.

    Args:
        is_watched: Whether a module or an optimizer holds anything that is tested.
        is_whole: Whether it is a root module or an optimizer, and not a part.
        before: What to call, with whether the save may hold all of the state, not a part.
    """

    def __init__(
        self,
        is_watched: Callable[[Saved], bool],
        is_whole: Callable[[Saved], bool],
        before: Callable[[bool], None],
    ) -> None:
        self._is_watched = is_watched
        self._is_whole = is_whole
        self._before = before
        self._depth = 0
        self._patches = Patches()

    def install(self) -> None:
        """Start listening."""
        self._patches.wrap(torch.nn.Module, "state_dict", self._state_dict)
        self._patches.wrap(torch.optim.Optimizer, "state_dict", self._state_dict)
        self._patches.wrap(torch, "save", self._save)
        self._patches.wrap(AveragedModel, "update_parameters", self._average)

    def remove(self) -> None:
        """Stop listening."""
        self._patches.undo()

    def _average(self, original: Any, average: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
        if self._is_watched(model):
            self._before(self._is_whole(model))
        return original(average, model, *args, **kwargs)

    def _save(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        if self._depth == 0:
            self._before(True)
        return original(*args, **kwargs)

    def _state_dict(self, original: Any, item: Any, *args: Any, **kwargs: Any) -> Any:
        # A module asks its children for theirs: the outermost call is the save.
        outermost = self._depth == 0 and not torch.compiler.is_compiling()
        if outermost and self._is_watched(item):
            self._before(self._is_whole(item))
        self._depth += 1
        try:
            return original(item, *args, **kwargs)
        finally:
            self._depth -= 1

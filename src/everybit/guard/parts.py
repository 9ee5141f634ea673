"""The parts of a model that is never called as a whole: a container, a Lightning module."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import torch

from everybit.guard.tracked import parameter_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Parts:
    """Surrounds the calls of a model's parts where an update came and the model was not called.

    Where a part is not called either, its own parts are next.

    Args:
        attach: Surrounds the calls of a module.
        is_called: Whether a module whose calls are surrounded was ever called.
    """

    def __init__(
        self,
        attach: Callable[[torch.nn.Module], None],
        is_called: Callable[[torch.nn.Module], bool],
    ) -> None:
        self._attach = attach
        self._is_called = is_called
        self._waiting: list[weakref.ref[torch.nn.Module]] = []

    def expect(self, module: torch.nn.Module) -> None:
        """Note a module whose calls are surrounded from now on."""
        self._waiting.append(weakref.ref(module))

    def look(self, optimizer: torch.optim.Optimizer) -> None:
        """After an update: surround the parts of what it trains and nobody called."""
        waiting, self._waiting = self._waiting, []
        mine: set[int] = set()
        for reference in waiting:
            module = reference()
            if module is None or self._is_called(module):
                continue
            mine = mine or parameter_ids(optimizer)
            if not any(id(p) in mine for p in module.parameters()):
                self._waiting.append(reference)
                continue
            for part in _parts_of(module):
                self._attach(part)
                self.expect(part)


def _parts_of(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """Yield the children that can be called; of a list or dictionary of modules, what it holds."""
    for child in module.children():
        if type(child) in (torch.nn.ModuleList, torch.nn.ModuleDict):
            yield from _parts_of(child)
        else:
            yield child

"""What a Guard watches: root modules, optimizers, and the hooks on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from everybit.core.errors import UsageError
from everybit.guard.boundaries import Boundaries
from everybit.guard.discover import Discovery, roots_of
from everybit.guard.saves import Saves
from everybit.guard.state import CarriedState
from everybit.guard.writers import Writers

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.guard.boundaries import Emit

    Watched = torch.nn.Module | torch.optim.Optimizer


class Watch:
    """Root modules and optimizers, given or found, with every hook installed and removed together.

    Args:
        watched: What was given; where empty, modules are found when an optimizer is built.
        shadow: Keep copies of the carried state.
        reach: Called at each boundary.
        before_save: Called before a watched item gives its state_dict.
    """

    def __init__(
        self,
        watched: tuple[Watched, ...],
        *,
        shadow: bool,
        reach: Emit,
        before_save: Callable[[], None],
    ) -> None:
        self._writers = Writers()
        self.state = CarriedState(self._writers, shadow=shadow)
        self.boundaries = Boundaries(reach, self._wants)
        self.complete = False
        self._saves = Saves(before_save)
        self._discovery = None if watched else Discovery(self._add, self._add_wrapper)
        self._given = watched
        for item in watched:
            if not isinstance(item, (torch.nn.Module, torch.optim.Optimizer)):
                raise UsageError(
                    f"a {type(item).__name__} is neither a module nor an optimizer",
                    where="Guard",
                    todo="give it the model and the optimizers, or nothing to have them found",
                )

    def install(self) -> None:
        """Hook everything."""
        self.boundaries.install()
        self._writers.install()
        if self._discovery is not None:
            self._discovery.install()
        for item in self._given:
            self._add(item)

    def remove(self) -> None:
        """Leave everything as it was before `install`."""
        if self._discovery is not None:
            self._discovery.remove()
        self._saves.remove()
        self.boundaries.remove()
        self._writers.remove()

    def mark(self) -> bool:
        """Mark what came since the last call; whether there was anything new."""
        if self.complete:
            return False
        self.state.mark_all()
        self.complete = True
        return True

    def _add(self, item: Watched) -> None:
        """Take up an item; where nothing was given, the modules of an optimizer too."""
        if isinstance(item, torch.optim.Optimizer):
            self.state.add_optimizer(item)
            if self._discovery is not None:
                for root in roots_of(item):
                    self._add(root)
        else:
            for old in self.state.add_root(item):
                self.boundaries.detach(old)
            if any(root is item for root, _ in self.state.roots):
                self.boundaries.attach(item)
        self._saves.watch(item)
        self.complete = False

    def _add_wrapper(self, wrapper: torch.nn.Module) -> None:
        """Take up a wrapper that was put around a root."""
        inside = set(wrapper.modules())
        if any(root in inside for root, _ in self.state.roots):
            self._add(wrapper)

    def _wants(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether an optimizer that steps is one of this loop's."""
        if self.state.name_of(optimizer) is not None:
            return True
        if self._discovery is None and not self.state.owns(optimizer):
            return False
        self._add(optimizer)
        return True

"""What a Guard watches: root modules, optimizers, and the hooks on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from everybit.core.boundary import Boundary
from everybit.core.errors import UsageError
from everybit.guard.boundaries import Boundaries
from everybit.guard.discover import Discovery, Owners, roots_of
from everybit.guard.loads import Loads
from everybit.guard.parts import Parts
from everybit.guard.saves import Saves
from everybit.guard.state import CarriedState
from everybit.guard.writers import Writers
from everybit.probe.wrappers import unwrap

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.guard.boundaries import Emit
    from everybit.guard.moment import Moment

    Watched = torch.nn.Module | torch.optim.Optimizer


class Watch:
    """Root modules and optimizers, given or found, with every hook installed and removed together.

    Args:
        watched: What was given; where empty, modules are found when an optimizer is built.
        shadow: Keep copies of the carried state.
        reach: Called at each boundary.
        before_save: Called before a watched item gives its state_dict.
        fence: Calls a function with arguments; where that fails, the job does not.
    """

    def __init__(
        self,
        watched: tuple[Watched, ...],
        *,
        shadow: bool,
        reach: Emit,
        before_save: Callable[[bool], None],
        fence: Callable[..., Any],
    ) -> None:
        self._writers = Writers()
        self.state = CarriedState(self._writers, shadow=shadow)
        self._emit = reach
        self.boundaries = Boundaries(self._reach, self._wants, self._abandon, self._trains)
        self._parts = Parts(self.boundaries.attach, self.boundaries.is_called)
        self.complete = False
        self.fence = fence
        self.loads = Loads(fence, lambda: self.boundaries.step)
        self._saves = Saves(self._is_watched, self._is_whole, before_save)
        self._finds = not watched
        self._discovery = Discovery(
            self._take_up if self._finds else None,
            self._take_up_wrapper,
            self._take_up_model if self._finds else None,
        )
        self._owners = Owners()
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
        self._discovery.install()
        self._saves.install()
        self.loads.install()
        for item in self._given:
            self._take_up(item)

    def remove(self) -> None:
        """Leave everything as it was before `install`."""
        self.loads.remove()
        self._saves.remove()
        self._discovery.remove()
        self._writers.remove()
        self.boundaries.remove()

    def trains(self) -> bool:
        """Whether an optimizer is known: what is delivered may be for an update."""
        return self._trains()

    def position(self, wants_gradients: bool) -> tuple[int, bool]:
        """Return the updates so far, and whether what is delivered now is for the next one.

        Args:
            wants_gradients: Whether gradients are recorded where it is delivered.
        """
        step = self.boundaries.step
        return step, wants_gradients and self._trains() and self.state.members.in_training

    def mark(self) -> bool:
        """Mark what came since the last call; whether there was anything new."""
        if self.complete and not self.state.lost:
            return False
        self.state.mark_new()
        self.complete = True
        return True

    def _reach(self, boundary: Boundary, moment: Moment) -> None:
        self._emit(boundary, moment)
        if boundary is Boundary.STEP_END and moment.optimizer is not None:
            self.fence(self._parts.look, moment.optimizer)

    def _take_up(self, item: Watched) -> None:
        self.fence(self._add, item)

    def _take_up_wrapper(self, wrapper: torch.nn.Module) -> None:
        self.fence(self._add_wrapper, wrapper)

    def _take_up_model(self, model: torch.nn.Module) -> None:
        """Take up a model that is made ready, while no optimizer tells what is trained."""
        if not self._trains():
            self.fence(self._add_model, model)

    def _add_model(self, model: torch.nn.Module) -> None:
        if any(model is part for root, _ in self.state.members.roots for part in root.modules()):
            return
        for root in self._owners(model):
            self._add(root)

    def _trains(self) -> bool:
        return self.state.members.has_optimizers

    def _abandon(self, optimizer: torch.optim.Optimizer) -> None:
        """Take the state as an update left it that ended in an error."""
        self.fence(self.state.mark_updated, optimizer)

    def _add(self, item: Watched) -> None:
        """Take up an item; where nothing was given, the modules of an optimizer too."""
        if isinstance(item, torch.optim.Optimizer):
            self.state.members.add_optimizer(item)
            if self._finds:
                for root in roots_of(item):
                    self._add(root)
        else:
            for old in self.state.members.add_root(item):
                self.boundaries.detach(old)
            if any(root is item for root, _ in self.state.members.roots):
                self.boundaries.attach(item)
                self._parts.expect(item)
        self.complete = False

    def _add_wrapper(self, wrapper: torch.nn.Module) -> None:
        """Take up a wrapper that was put around a root."""
        inside = set(wrapper.modules())
        if any(root in inside for root, _ in self.state.members.roots):
            self._add(wrapper)

    def _wants(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether an optimizer that steps is one of this loop's."""
        if self.state.members.name_of(optimizer) is not None:
            return True
        return bool(self.fence(self._adopt, optimizer))

    def _adopt(self, optimizer: torch.optim.Optimizer) -> bool:
        if not self._finds and not self.state.members.owns(optimizer):
            return False
        self._add(optimizer)
        return True

    def _is_whole(self, item: Watched) -> bool:
        """Whether the item is a root module, or an optimizer."""
        return not isinstance(item, torch.nn.Module) or any(
            item is unwrap(root) or item is root for root, _ in self.state.members.roots
        )

    def _is_watched(self, item: Watched) -> bool:
        """Whether a state_dict of the item holds tensors that are tested."""
        if isinstance(item, torch.optim.Optimizer):
            return self.state.members.name_of(item) is not None
        return any(item is part for root, _ in self.state.members.roots for part in root.modules())

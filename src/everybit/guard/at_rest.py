"""The check on carried links: weights and optimizer state are what the last update left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.core.boundary import Boundary
from everybit.core.damage import Damage, Role
from everybit.detect.at_rest import judge_at_rest
from everybit.guard.check import Check

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from everybit.core.finding import Finding
    from everybit.guard.moment import Moment
    from everybit.guard.scrub import Scrub
    from everybit.guard.state import CarriedState

_FIRST_USE_IN_FORWARD = {Role.PARAMETER, Role.BUFFER}
_FIRST_USE_IN_UPDATE = {Role.PARAMETER, Role.STATE}


class AtRestCheck(Check):
    """Test carried state before its first use, and mark it after each update.

    Parameters and buffers are tested when a root module is called, an optimizer's parameters and
    state when its step begins. Buffers are marked after each call, since batch norm writes them
    in it without moving a version counter, and not again until the next one.

    Args:
        state: The carried state, shared with the record.
        rank: Rank of this process.
        heal: Put the right bits back.
        patient: What an accelerator finds at the start of forward may be read at the update.
        scrub: Chooses what is tested before a call while nothing is trained.
    """

    def __init__(
        self,
        state: CarriedState,
        *,
        rank: int,
        heal: bool,
        patient: bool,
        scrub: Scrub,
    ) -> None:
        self.state = state
        self._scrub = scrub
        self._rank = rank
        self._heal = heal
        self._patient = patient
        self._step = 0

    def __call__(self, boundary: Boundary, moment: Moment) -> Sequence[Finding]:
        """Return the damage found at this boundary."""
        self._step = moment.step
        if not moment.alone:
            self._note_company()
        if boundary is Boundary.FORWARD_START:
            return self._judged(self._test_forward(moment)) if moment.alone else ()
        if boundary is Boundary.FORWARD_END:
            if moment.evaluating and moment.root is not None:
                self._scrub.called()
                if not any(part.training for part in moment.root.modules()):
                    # No statistics are taken. What a call writes (a cache) is counted.
                    self.state.settle_buffers()
                    return ()
            self.state.mark_buffers()
        elif boundary is Boundary.STEP_START and moment.optimizer is not None and moment.alone:
            return self._judged(self._test_update(moment.optimizer, used=moment.used))
        elif boundary is Boundary.STEP_END and moment.optimizer is not None:
            self.state.mark_updated(moment.optimizer)
        return ()

    def at_end(self, step: int) -> Sequence[Finding]:
        """Test all carried state."""
        self._step = step
        return self._judged(self.state.test(None, roles=set(Role), heal=self._heal))

    def _judged(self, found: list[tuple[Damage, bool]]) -> list[Finding]:
        return [
            judge_at_rest(damage, step=self._step, rank=self._rank, tainted=tainted)
            for damage, tainted in found
        ]

    def _note_company(self) -> None:
        """Test nothing while another thread may write: that would be no proof."""
        self.state.buffers_in_doubt = True
        why = "another thread was inside the model or an update"
        self.state.skipped["tensors, at some steps,"] = why

    def _test_forward(self, moment: Moment) -> list[tuple[Damage, bool]]:
        if moment.evaluating:
            return self._scrub_some(moment)
        # A call inside an update (a closure) comes while the optimizer writes its parameters.
        roles = {Role.BUFFER} if moment.updating else _FIRST_USE_IN_FORWARD
        # Of a model called by its parts, the first call of a step is a use of any of it.
        first = moment.call == 0 and not self.state.members.is_root(moment.root)
        found = self.state.test(
            None,
            roles=roles,
            heal=self._heal,
            root=None if first else moment.root,
            defer=self._patient,
        )
        # A deferred answer means that the forward pass went on with the damaged bits.
        return [(damage, late or moment.used) for damage, late in found]

    def _scrub_some(self, moment: Moment) -> list[tuple[Damage, bool]]:
        self._scrub.begin(moment.step)
        try:
            return self.state.test(
                None, roles=_FIRST_USE_IN_FORWARD, heal=self._heal, scrub=self._scrub
            )
        finally:
            self._scrub.end()

    def _test_update(
        self, optimizer: torch.optim.Optimizer, *, used: bool
    ) -> list[tuple[Damage, bool]]:
        groups = self.state.members.written_by(optimizer)
        found = self.state.test(groups, roles=_FIRST_USE_IN_UPDATE, heal=self._heal)
        return [
            (damage, late or (used and damage.role is not Role.STATE)) for damage, late in found
        ]

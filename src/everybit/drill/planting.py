"""Plant a trial's fault in a training that is going on, and know the truth about it."""

from __future__ import annotations

import glob
import random
from typing import TYPE_CHECKING, Any, Self

from everybit.core.boundary import Boundary
from everybit.core.computed_fault import OF_MODULES, ComputedFault
from everybit.core.errors import UsageError
from everybit.core.fault import Pattern
from everybit.drill.trial import CARRIED, COMPUTED, Shape, Site, Trial
from everybit.inject import Campaign, ComputedCampaign, Target, draw_fault, list_targets

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from torch import nn

    from everybit.core.change import Change
    from everybit.core.fault import Fault
    from everybit.core.finding import Location
    from everybit.inject import ComputedTarget

#: Until when faults last that last, in steps from their first.
LASTING = 3


class Planted:
    """A fault that comes at its step, as a context manager; enter the Guard before it.

    Args:
        trial: What to plant.
        root: The model, as the loop calls it.
        optimizer: Its updates count the steps.
        computed: What the model computes, to choose from.
        count: The current step, where the caller counts better.

    Attributes:
        absent: Why there is nothing to plant, or "".
    """

    def __init__(
        self,
        trial: Trial,
        root: nn.Module,
        optimizer: torch.optim.Optimizer,
        computed: Sequence[ComputedTarget],
        *,
        count: Callable[[], int] | None = None,
    ) -> None:
        self.absent = ""
        self._trial = trial
        self._holders = (root, optimizer)
        self._memory: Campaign | None = None
        self._wrong: ComputedCampaign | None = None
        if trial.site in CARRIED:
            self._memory = Campaign([], root, optimizer, count=count, undo=False)
        elif trial.site in COMPUTED:
            fault = computed_fault(trial, computed)
            if fault is None:
                self.absent = "it computes nothing of this kind and dtype"
            else:
                self._wrong = ComputedCampaign([fault], root, optimizer, count=count)

    @property
    def truth(self) -> list[tuple[Location, tuple[Change, ...]]]:
        """Place and changed elements of each time it struck and changed a bit, in order."""
        told = [
            *(self._memory.injections if self._memory else ()),
            *(self._wrong.hits if self._wrong else ()),
        ]
        return [(one.where, tuple(one.changes)) for one in told if one.changes]

    def before_step(self, step: int) -> None:
        """Draw a fault of memory a step ahead: moments exist from the first update on."""
        if self._memory is None or self.absent or step != self._trial.step - 1:
            return
        try:
            self._memory.waiting.append(carried_fault(self._trial, *self._holders))
        except UsageError as error:
            self.absent = error.what

    def __enter__(self) -> Self:
        if self._memory is not None:
            self._memory.__enter__()
        if self._wrong is not None:
            self._wrong.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._memory is not None:
            self._memory.__exit__(*exception)
        if self._wrong is not None:
            self._wrong.__exit__(*exception)
            if not self._wrong.hits and self._wrong.refused:
                self.absent = self._wrong.refused[0][1]


def carried_fault(trial: Trial, *holders: nn.Module | torch.optim.Optimizer) -> Fault:
    """Draw a trial's fault in memory.

    Raises:
        UsageError: There is no tensor of this kind, dtype and size.
    """
    shape, kind = trial.shape, CARRIED[trial.site]
    asked = Site.WEIGHT if trial.site is Site.GRADIENT else trial.site
    fitting = [
        target
        for target in list_targets(*holders)
        if target.kind is CARRIED[asked] and _fits(target, trial)
    ]
    if not fitting:
        raise UsageError(f"it has no {trial.site} of {trial.dtype} for {shape}")
    chosen = random.Random(f"{trial.seed} tensor").choice(fitting)
    gradient = trial.site is Site.GRADIENT
    fault = draw_fault(
        *holders,
        seed=trial.seed,
        pattern=shape.pattern,
        where=glob.escape(chosen.address),
        num_elements=shape.num_elements,
        step=trial.step,
        boundary=_moment(trial),
        last_step=trial.step + LASTING if shape is Shape.STUCK else None,
    )
    from dataclasses import replace

    return replace(fault, kind=kind) if gradient else fault


def computed_fault(trial: Trial, computed: Sequence[ComputedTarget]) -> ComputedFault | None:
    """Draw a trial's wrong result; None where the model computes nothing of the kind and dtype."""
    kind, shape = COMPUTED[trial.site], trial.shape
    module = parameter = ""
    if kind in OF_MODULES:
        need = shape.num_elements or 1
        fitting = [
            target
            for target in computed
            if (target.kind, target.dtype) == (kind, trial.dtype) and target.num_elements >= need
        ]
        if not fitting:
            return None
        chosen = random.Random(f"{trial.seed} module").choice(fitting)
        module, parameter = chosen.module, chosen.parameter
    lasts = shape in (Shape.STUCK, Shape.INTERMITTENT)
    return ComputedFault(
        kind=kind,
        module=module,
        parameter=parameter,
        pattern=shape.pattern,
        num_elements=shape.num_elements,
        step=trial.step,
        lasts=lasts,
        last_step=trial.step + LASTING if lasts else None,
        probability=0.5 if shape is Shape.INTERMITTENT else 1.0,
        seed=trial.seed,
    )


def _fits(target: Target, trial: Trial) -> bool:
    tensor, shape = target.value, trial.shape
    if str(tensor.dtype).removeprefix("torch.") != trial.dtype:
        return False
    if trial.site is Site.GRADIENT and not tensor.requires_grad:
        return False
    least = shape.num_elements or (
        1 if shape.pattern in (Pattern.FLIP, Pattern.MULTI_BIT, Pattern.STUCK) else 2
    )
    return tensor.numel() >= least and (shape is not Shape.TILE or tensor.dim() > 1)


def _moment(trial: Trial) -> Boundary:
    if trial.site is Site.GRADIENT:
        return Boundary.STEP_START
    moments = [Boundary.FORWARD_START, Boundary.STEP_START]
    if trial.site is Site.BUFFER or trial.shape is Shape.STALE:
        # A weight is the same at both moments of a step; what was there before differs.
        moments = moments[:1]
    return random.Random(f"{trial.seed} moment").choice(moments)

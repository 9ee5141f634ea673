"""Faults of a job of several ranks: what one of them sends, gets and keeps, and what all get."""

from __future__ import annotations

import glob
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import torch

from everybit.core.boundary import Boundary
from everybit.core.computed_fault import ComputedFault, ComputedKind
from everybit.core.errors import UsageError
from everybit.core.fault import TargetKind
from everybit.drill.trial import Site, Trial
from everybit.inject import ComputedCampaign, apply, draw_fault, list_targets

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import nn

    from everybit.core.change import Change
    from everybit.core.fault import Fault
    from everybit.core.finding import Location
    from everybit.inject import ComputedTarget


def struck_rank(trial: Trial) -> int:
    """Return the rank whose device errs."""
    return trial.seed % max(1, trial.ranks)


class Beneath:
    """Lies beneath a Guard's wrapper of `backward`, as a context manager; enter it before that.

    Attributes:
        then: Called when `backward` has ended, and nobody has looked yet.
    """

    def __init__(self) -> None:
        self.then: Callable[[], None] = lambda: None
        self._backward: Any = None

    def __enter__(self) -> Self:
        self._backward = torch.autograd.backward
        torch.autograd.backward = self._call
        return self

    def __exit__(self, *exception: Any) -> None:
        torch.autograd.backward = self._backward

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        result = self._backward(*args, **kwargs)
        self.then()
        return result


class RankFault:
    """A fault of one rank, or of the reduction, as a context manager.

    Args:
        trial: What to plant.
        root: The model as the loop calls it: the wrapper.
        optimizer: Its optimizer.
        computed: What the model computes, to choose from.
        count: The current step.
        rank: This process's rank.
        beneath: Lies beneath the Guard.

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
        count: Callable[[], int],
        rank: int,
        beneath: Beneath,
    ) -> None:
        self.absent = ""
        self._beneath = beneath
        self._trial = trial
        self._root = root
        self._optimizer = optimizer
        self._count = count
        self._mine = rank == struck_rank(trial) or trial.site is Site.REDUCTION
        self._truth: list[tuple[Location, tuple[Change, ...]]] = []
        self._wrong: ComputedCampaign | None = None
        self._handle: Any = None
        if not self._mine or trial.site not in _COMPUTED:
            return
        fault = _computed(trial, computed)
        if fault is None:
            self.absent = "it computes nothing of this kind and dtype"
        else:
            self._wrong = ComputedCampaign([fault], root, optimizer, count=count, rank=rank)

    @property
    def truth(self) -> list[tuple[Location, tuple[Change, ...]]]:
        """Place and changed elements of each time it struck here and changed a bit."""
        hits = [
            (hit.where, tuple(hit.changes)) for hit in (self._wrong.hits if self._wrong else ())
        ]
        return [(where, changes) for where, changes in (*hits, *self._truth) if changes]

    def __enter__(self) -> Self:
        if self._wrong is not None:
            self._wrong.__enter__()
        elif self._mine and self._trial.site in (Site.RECEIVED, Site.REDUCTION):
            self._beneath.then = self._reduced
        elif self._mine and self._trial.site is Site.REPLICA:
            # Ahead of the Guard's hook, which is one for all optimizers.
            self._handle = self._optimizer.register_step_post_hook(self._updated)
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._wrong is not None:
            self._wrong.__exit__(*exception)
        self._beneath.then = lambda: None
        if self._handle is not None:
            self._handle.remove()

    def before_step(self, step: int) -> None:
        """Do nothing: these faults are drawn when they strike."""

    def _reduced(self) -> None:
        if self._count() == self._trial.step and not self._truth:
            self._strike(gradient=True)

    def _updated(self, *_: Any) -> None:
        # What this update writes is used in the next step.
        if self._count() == self._trial.step - 1 and not self._truth:
            self._strike(gradient=False)

    def _strike(self, *, gradient: bool) -> None:
        try:
            fault = _carried(self._trial, self._root, self._optimizer, gradient=gradient)
            injection = apply(fault, self._root, self._optimizer, step=self._trial.step)
        except UsageError as error:
            self.absent = error.what
            return
        # A reduction is wrong on all of them; else it is this rank that is.
        rank = None if self._trial.site is Site.REDUCTION else struck_rank(self._trial)
        self._truth.append((replace(injection.where, rank=rank), tuple(injection.changes)))


_COMPUTED = {Site.SENT: ComputedKind.PARAMETER_GRADIENT, Site.RANK: ComputedKind.ACTIVATION}


def _computed(trial: Trial, computed: Sequence[ComputedTarget]) -> ComputedFault | None:
    kind, need = _COMPUTED[trial.site], trial.shape.num_elements or 1
    fitting = [
        target
        for target in computed
        if (target.kind, target.dtype) == (kind, trial.dtype) and target.num_elements >= need
    ]
    if not fitting:
        return None
    chosen = random.Random(f"{trial.seed} module").choice(fitting)
    return ComputedFault(
        kind=kind,
        module=chosen.module,
        parameter=chosen.parameter,
        pattern=trial.shape.pattern,
        num_elements=trial.shape.num_elements,
        step=trial.step,
        lasts=trial.site is Site.RANK,
        rank=struck_rank(trial),
        seed=trial.seed,
    )


def _carried(trial: Trial, *holders: Any, gradient: bool) -> Fault:
    need = trial.shape.num_elements or 2
    fitting = [
        target
        for target in list_targets(*holders)
        if target.kind is TargetKind.WEIGHT
        and str(target.value.dtype).removeprefix("torch.") == trial.dtype
        and target.value.requires_grad
        and target.value.numel() >= need
    ]
    if not fitting:
        raise UsageError(f"it has no weight of {trial.dtype}")
    chosen = random.Random(f"{trial.seed} tensor").choice(fitting)
    fault = draw_fault(
        *holders,
        seed=trial.seed,
        pattern=trial.shape.pattern,
        where=glob.escape(chosen.address),
        num_elements=trial.shape.num_elements,
        step=trial.step,
        boundary=Boundary.STEP_START if gradient else Boundary.FORWARD_START,
    )
    return replace(fault, kind=TargetKind.GRADIENT) if gradient else fault

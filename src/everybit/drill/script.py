"""A drill's part in a process that runs a user's script: follow its training, break it, end it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self

import torch

from everybit.drill.planting import Planted
from everybit.drill.rank_faults import RankFault
from everybit.drill.subjects import DTYPES
from everybit.drill.training_run import Trained, words_of
from everybit.drill.trial import CARRIED, COMPUTED, RANKED, Site, Trial
from everybit.guard.discover import Discovery, roots_of
from everybit.inject import ComputedListing, ComputedTarget, list_targets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

    from everybit.drill.rank_faults import Beneath


class EnoughError(SystemExit):
    """Ends a script that has trained as long as it was to."""


class ScriptTraining:
    """Follows the first optimizer that a script builds; enter it after the Guard.

    Args:
        steps: Updates after which the script is ended.
        trial: What to break; None breaks nothing, and lists what could be.
        computed: What the model computes, to choose from.
        rank: This process's, of a job of several.
        beneath: Lies beneath the Guard's own wrapper of `backward`, in such a job.

    Attributes:
        trained: Losses and bits of each step.
        planted: The fault; None before the optimizer is there.
    """

    def __init__(
        self,
        steps: int,
        trial: Trial | None = None,
        computed: Sequence[ComputedTarget] = (),
        *,
        rank: int = 0,
        beneath: Beneath | None = None,
    ) -> None:
        self.trained = Trained()
        self.planted: Planted | RankFault | None = None
        self._rank = rank
        self._beneath = beneath
        self._steps = steps
        self._trial = trial
        self._computed = computed
        self._listing: ComputedListing | None = None
        self._model: nn.Module | None = None
        self._optimizer: torch.optim.Optimizer | None = None
        self._loss: torch.Tensor | None = None
        self._began = 0.0
        self._backward: Any = None
        self._discovery = Discovery(self._found, lambda _: None, None)

    def __enter__(self) -> Self:
        self._discovery.install()
        self._backward = torch.autograd.backward
        torch.autograd.backward = self._note_loss
        return self

    def __exit__(self, *exception: Any) -> None:
        self._discovery.remove()
        torch.autograd.backward = self._backward
        if self.planted is not None:
            self.planted.__exit__(*exception)

    def survey(self) -> dict[str, Any]:
        """Return what can be broken: sites, dtypes, and what the model computes."""
        if self._model is None or self._optimizer is None:
            return {"sites": [], "dtypes": [], "computed": []}
        computed = self._listing.targets if self._listing else []
        targets = list_targets(self._model, self._optimizer)
        kinds = {t.kind for t in targets if t.value.is_floating_point()}
        carried = [site for site, kind in CARRIED.items() if kind in kinds or _of_weights(site)]
        found = {target.kind for target in computed}
        sites = [
            *carried,
            *(site for site, kind in COMPUTED.items() if kind in found or _of_calls(site)),
        ]
        dtypes = {str(t.value.dtype).removeprefix("torch.") for t in targets}
        dtypes |= {target.dtype for target in computed}
        return {
            "sites": [str(site) for site in Site if site in sites],
            "dtypes": [name for name in DTYPES if name in dtypes],
            "computed": [
                {
                    "kind": str(t.kind),
                    "module": t.module,
                    "parameter": t.parameter,
                    "dtype": t.dtype,
                    "num_elements": t.num_elements,
                }
                for t in computed
            ],
        }

    def _found(self, optimizer: torch.optim.Optimizer) -> None:
        roots = roots_of(optimizer)
        if self._optimizer is not None or not roots:
            return
        self._optimizer, self._model = optimizer, roots[0]
        if self._trial is None:
            self._listing = ComputedListing(self._model)
            self._listing.__enter__()
        elif self._trial.site is not Site.CLEAN:
            self.planted = self._planted(self._trial, self._model, optimizer)
            self.planted.__enter__()
            self.planted.before_step(0)
        # After those of the fault: what is ahead of it counts with it.
        optimizer.register_step_pre_hook(self._before_update)
        optimizer.register_step_post_hook(self._after_update)
        self._began = time.perf_counter()

    def _planted(
        self, trial: Trial, model: nn.Module, optimizer: torch.optim.Optimizer
    ) -> Planted | RankFault:
        if trial.site not in RANKED:
            return Planted(trial, model, optimizer, self._computed)
        assert self._beneath is not None
        return RankFault(
            trial,
            model,
            optimizer,
            self._computed,
            count=lambda: len(self.trained.words),
            rank=self._rank,
            beneath=self._beneath,
        )

    def _note_loss(self, tensors: Any, *args: Any, **kwargs: Any) -> Any:
        result = self._backward(tensors, *args, **kwargs)
        first = tensors if isinstance(tensors, torch.Tensor) else next(iter(tensors), None)
        self._loss = first.detach() if isinstance(first, torch.Tensor) else None
        return result

    def _before_update(self, *_: Any) -> None:
        # One update late: the checks of the last one are over then.
        if len(self.trained.words) >= self._steps:
            raise EnoughError(0)

    def _after_update(self, *_: Any) -> None:
        assert self._model is not None
        assert self._optimizer is not None
        trained = self.trained
        trained.seconds = time.perf_counter() - self._began
        if self._loss is not None and self._loss.numel() == 1:
            trained.losses.append(float(self._loss))
        trained.words.append(words_of(self._model, self._optimizer, self._loss))
        if self._listing is not None and len(trained.words) == 1:
            self._listing.__exit__()
        if self.planted is not None:
            self.planted.before_step(len(trained.words))


def computed_of(listed: Sequence[dict[str, Any]]) -> list[ComputedTarget]:
    """Return what `survey` listed."""
    from everybit.core.computed_fault import ComputedKind

    return [ComputedTarget(**{**one, "kind": ComputedKind(one["kind"])}) for one in listed]


def _of_weights(site: Site) -> bool:
    return site is Site.GRADIENT


def _of_calls(site: Site) -> bool:
    return site in (Site.LOSS, Site.BATCH, Site.RNG)

"""Settings of optimizers, of the schedulers that drive them, and of a GradScaler."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

from torch.optim.lr_scheduler import LRScheduler

from everybit.guard.configuration.plain import plain

if TYPE_CHECKING:
    import torch

#: What a scheduler counts, or what its settings give: no settings themselves.
_COUNTED = frozenset({"last_epoch", "num_bad_epochs", "cooldown_counter", "best", "T_cur", "T_i"})
_SCALER = ("_growth_factor", "_backoff_factor", "_growth_interval")


class OptimizerSettings:
    """Reads optimizers; one that is as it was is passed over quickly."""

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[torch.optim.Optimizer, Any] = (
            weakref.WeakKeyDictionary()
        )
        self._schedulers: weakref.WeakKeyDictionary[torch.optim.Optimizer, Any] = (
            weakref.WeakKeyDictionary()
        )

    def read(self, optimizer: torch.optim.Optimizer) -> dict[str, Any] | None:
        """Return an optimizer's settings; None where they are what they were."""
        looked = _look(optimizer)
        if self._known.get(optimizer) == looked:
            return None
        self._known[optimizer] = looked
        if optimizer not in self._schedulers:
            self._schedulers[optimizer] = _schedulers_of(optimizer)
        found: dict[str, Any] = {
            "class": type(optimizer).__name__,
            "groups": {
                str(index): {
                    "num_params": count,
                    **{key: value for key, value in settings if value is not None},
                }
                for index, (count, settings) in enumerate(looked)
            },
        }
        if self._schedulers[optimizer]:
            found["schedulers"] = self._schedulers[optimizer]
        return found


def _look(optimizer: torch.optim.Optimizer) -> list[Any]:
    return [
        (
            len(group["params"]),
            [
                (key, plain(value))
                for key, value in group.items()
                if key not in ("params", "param_names")
            ],
        )
        for group in optimizer.param_groups
    ]


def _schedulers_of(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Look once for the schedulers of an optimizer among all live objects."""
    found: dict[str, Any] = {}
    # Types are compared without `isinstance`, which would touch lazy attributes of others.
    for item in gc.get_objects():
        if issubclass(type(item), LRScheduler) and getattr(item, "optimizer", None) is optimizer:
            settings = {
                key: value
                for key, each in vars(item).items()
                if not key.startswith("_") and key not in _COUNTED
                if (value := plain(each)) is not None
            }
            found[f"{type(item).__name__}{'' if not found else len(found)}"] = settings
    return found


def scaler_settings(scaler: Any) -> dict[str, Any]:
    """Return what a GradScaler was built with; its scale is a number of each step."""
    found = {name.removeprefix("_"): plain(getattr(scaler, name, None)) for name in _SCALER}
    return {"class": type(scaler).__name__} | {k: v for k, v in found.items() if v is not None}

"""Which parameter an optimizer's state belongs to: by name, or by position where that fits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from everybit.files.checkpoints.parameters import strip_wrappers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.files.checkpoints.parameters import ModelState
    from everybit.files.checkpoints.state import OptimizerEntry, OptimizerState

#: Moments that torch's optimizers and their kin keep in the shape of the parameter.
ELEMENTWISE: Final = frozenset({
    "acc_delta", "ax", "exp_avg", "exp_avg_sq", "exp_inf", "grad_avg", "max_exp_avg_sq",
    "momentum_buffer", "prev", "square_avg", "sum",
})  # fmt: skip


def shape_of(entry: OptimizerEntry) -> tuple[int, ...] | None:
    """Return the shape of the parameter that an entry's moments were made for, where they say it.

    Factored moments (Adafactor) and those that a library packs its own way say nothing.
    """
    for moment in entry.moments:
        if moment.name in ELEMENTWISE and len(moment.shape) > 0:
            return moment.shape
    return None


def match_entries(optimizer: OptimizerState, models: Sequence[ModelState]) -> OptimizerState:
    """Return the optimizer with its entries' parameters, where these are certain.

    By the names that the file keeps; else, for one group that lists as many parameters as a model
    has, by position where every known shape fits there.
    """
    if optimizer.names or any(not entry.key.isdecimal() for entry in optimizer.entries):
        known = {strip_wrappers(name): name for model in models for name in model.tensors}
        entries = tuple(
            replace(entry, parameter=known.get(strip_wrappers(entry.name or entry.key), ""))
            for entry in optimizer.entries
        )
        return replace(optimizer, entries=entries, matched_by="names")
    if len(optimizer.groups) != 1:
        return optimizer
    order = {key: index for index, key in enumerate(optimizer.groups[0])}
    for model in models:
        names = list(model.trainable())
        if not model.ordered or len(names) != len(order):
            continue
        shapes = model.trainable()
        placed = {
            entry.key: names[order[entry.key]] for entry in optimizer.entries if entry.key in order
        }
        if all(
            shape_of(entry) in (None, shapes[placed[entry.key]].shape)
            for entry in optimizer.entries
            if entry.key in placed
        ):
            entries = tuple(
                replace(entry, parameter=placed.get(entry.key, "")) for entry in optimizer.entries
            )
            return replace(optimizer, entries=entries, matched_by="position")
    return optimizer

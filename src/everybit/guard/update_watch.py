"""The parameters of one optimizer around its updates: norms, samples, and what moved."""

from __future__ import annotations

import copy
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import torch

from everybit.core.numbers import NOTHING, Movement, Replacement, Stillness
from everybit.probe.memory import storage_address
from everybit.probe.movement import knows, skips_without_gradient, steps_due
from everybit.probe.numerics import (
    Reading,
    plain_values,
    read_norms,
    sample_scale,
    sample_view,
    with_known,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Print = int | bytes | None

#: Updates that a parameter may miss under an optimizer whose formula is not known.
LONG = 8
#: Spacings of its values by which a parameter had to move: below, rounding may have eaten it.
_DUE = 2.0
#: Elements that may all lie at a bound.
_FEW = 16
#: Share of its highest learning rate from which a group's rate falls to zero by a jump.
_FALL = 0.1


class UpdateWatch:
    """What one optimizer's parameters were before and after its last update.

    Attributes:
        labels: Labels of the parameters, in the order of the model.
        tensors: The parameters.
        groups: Index of each one's parameter group.
        norms: L2 norms that the last update left.
        num_rounded: Updates of a parameter that rounding ate.
        still_at_zero: Parameters with a gradient whose learning rate has been zero throughout.
    """

    def __init__(self) -> None:
        self.labels: tuple[str, ...] = ()
        self.tensors: list[torch.Tensor] = []
        self.groups: list[int] = []
        self.norms: list[float] = []
        self.num_rounded = 0
        self.still_at_zero: set[str] = set()
        self._prints: list[Print] = []
        self._before: list[Print] = []
        self._samples: list[torch.Tensor | None] = []
        self._streak: dict[str, int] = {}
        self._told: set[tuple[str, Stillness]] = set()
        self._highest: dict[int, float] = {}
        self._rates: list[float] = []
        self._alone: dict[str, int] = {}
        self._norms = Reading([])
        self._moved_by = Reading([])
        self._shifted = False
        self.was_shifted = False

    def meet(
        self,
        optimizer: torch.optim.Optimizer,
        tracked: Sequence[tuple[str, torch.Tensor, Print]],
    ) -> list[Replacement]:
        """Take the parameters as an update is about to find them.

        Returns:
            Those that something else has written to since the last update.
        """
        labels = tuple(label for label, _, _ in tracked)
        tensors = [tensor for _, tensor, _ in tracked]
        prints = [mark for _, _, mark in tracked]
        same = labels == self.labels and all(
            old is new for old, new in zip(self.tensors, tensors, strict=True)
        )
        if not same:
            self._begin(optimizer, labels, tensors)
            self._before = prints
            return []
        self._before = prints
        if not self._prints or prints == self._prints:
            self._shifted = self.was_shifted = False
            return []
        changed = [
            place
            for place, (old, new) in enumerate(zip(self._prints, prints, strict=True))
            if old != new
        ]
        found = self._replacements(changed)
        self.was_shifted, self._shifted = self._shifted, len(changed) * 2 > len(prints)
        return found

    def stay(self) -> None:
        """Take note that the update did not happen."""
        self._prints = self._before

    def forget(self) -> None:
        """Forget where the parameters were: updates have gone by unseen."""
        self.norms, self._prints = [], []

    def held(self) -> dict[str, Any]:
        """Return what is remembered, to be put back where the next updates are undone."""
        kept = {key: copy.copy(value) for key, value in vars(self).items()}
        kept["_samples"] = [None if each is None else each.clone() for each in self._samples]
        return kept

    def put_back(self, held: dict[str, Any]) -> None:
        """Remember what was remembered then."""
        samples = [None if each is None else each.clone() for each in held["_samples"]]
        kept = {key: copy.copy(value) for key, value in held.items()}
        vars(self).update(kept | {"_samples": samples})

    @property
    def rewritten(self) -> bool:
        """Whether most parameters were written by something else, and not so the time before."""
        return self._shifted and not self.was_shifted

    def rates(self, optimizer: torch.optim.Optimizer) -> tuple[float, ...]:
        """Return the learning rates of the groups; NaN for one that an accelerator holds."""
        found = []
        for group in optimizer.param_groups:
            rate = group.get("lr", math.nan)
            if isinstance(rate, torch.Tensor):
                rate = float(rate) if rate.device.type == "cpu" else math.nan
            found.append(float(rate) if isinstance(rate, (int, float)) else math.nan)
        return tuple(found)

    def measure(self, known: Mapping[int, float]) -> list[torch.Tensor]:
        """Measure norms after an update and, from samples, of the update itself.

        Args:
            known: Norms that are known, by identity of the parameter.

        Returns:
            The words wanted from the readout.
        """
        self._norms = with_known(self.tensors, [known.get(id(t)) for t in self.tensors], 0.0)
        self._moved_by = self._read_samples()
        return [*self._norms.words_wanted, *self._moved_by.words_wanted]

    def finish(self, words: Sequence[int]) -> tuple[list[float], list[float]]:
        """Return the norms of the parameters, and the estimated norms of their updates."""
        split = len(self._norms.words_wanted)
        self.norms = self._norms.fill(words[:split])
        moved = self._moved_by.fill(words[split:])
        scaled = [
            norm * sample_scale(tensor, sample) if sample is not None else NOTHING
            for norm, tensor, sample in zip(moved, self.tensors, self._samples, strict=True)
        ]
        return self.norms, scaled

    def movements(
        self,
        optimizer: torch.optim.Optimizer,
        prints: Sequence[Print],
        gradients: Sequence[float],
        *,
        step: int,
        closure: bool,
    ) -> list[Movement]:
        """Return the parameters that moved otherwise than they should in this update.

        Args:
            optimizer: The optimizer.
            prints: Fingerprints of the parameters after the update; None where there is none.
            gradients: Norms of their gradients.
            step: The step.
            closure: The gradients were computed inside the update.
        """
        self._prints = list(prints)
        rates = self.rates(optimizer)
        found = list(self._fallen(rates, gradients, step))
        if closure:
            return found
        known, tidy = knows(optimizer), skips_without_gradient(optimizer)
        hooks = getattr(optimizer, "_optimizer_step_post_hooks", None)
        tidy &= not (hooks or getattr(optimizer, "_optimizer_step_pre_hooks", None))
        moved = [
            old is not None and new is not None and old != new
            for old, new in zip(self._before, prints, strict=True)
        ]
        active = {group for group, each in zip(self.groups, moved, strict=True) if each}
        for place, label in enumerate(self.labels):
            if self._before[place] is None or prints[place] is None:
                continue
            gradient, group = gradients[place], self.groups[place]
            if moved[place]:
                self._streak.pop(label, None)
                if gradient == NOTHING and tidy and not self._shares_memory(place, optimizer):
                    found += self._once(label, Stillness.MOVED_ALONE, step)
            elif hooks and self.tensors[place].numel() < _FEW:
                continue  # A hook may hold a few values at the bounds that they are clamped to.
            elif gradient > 0 and math.isfinite(gradient) and rates[group] > 0:
                found += self._still(
                    optimizer, place, step=step, known=known, lively=group in active
                )
        return found

    def orphans(
        self,
        optimizer_name: str,
        labels: Sequence[str],
        gradients: Sequence[float],
        unowned: Sequence[tuple[str, torch.Tensor]],
        step: int,
    ) -> list[Movement]:
        """Return parameters of the model that took the place of those that the optimizer holds.

        Args:
            optimizer_name: Name of the optimizer.
            labels: Labels of what it holds, as they are now.
            gradients: Norms of the gradients of what it holds.
            unowned: Labels and parameters of the model that no optimizer holds.
            step: The step.
        """
        lonely = Counter(
            (tuple(tensor.shape), tensor.dtype)
            for label, tensor, norm in zip(labels, self.tensors, gradients, strict=True)
            if norm == NOTHING and label.startswith(f"{optimizer_name}.group")
        )
        if not lonely:
            return []
        found: list[Movement] = []
        for label, tensor in unowned:
            fits = lonely[(tuple(tensor.shape), tensor.dtype)] > 0
            if not (fits and tensor.requires_grad and _has_gradient(tensor)):
                self._alone.pop(label, None)
                continue
            since = self._alone.setdefault(label, step)
            if step - since >= 2:  # Three steps in a row.
                what = "the optimizer holds another tensor of that shape, which the model has not"
                found += self._once(label, Stillness.REPLACED, since, what)
        return found

    def _begin(
        self,
        optimizer: torch.optim.Optimizer,
        labels: tuple[str, ...],
        tensors: list[torch.Tensor],
    ) -> None:
        group_of = {
            id(parameter): index
            for index, group in enumerate(optimizer.param_groups)
            for parameter in group["params"]
        }
        self.labels, self.tensors = labels, tensors
        self.groups = [group_of[id(tensor)] for tensor in tensors]
        self._samples = [_copy(tensor) for tensor in tensors]
        self.norms = []
        self._prints = []
        self._shifted = self.was_shifted = False

    def _replacements(self, changed: Sequence[int]) -> list[Replacement]:
        if not self.norms or not changed:
            return []
        tensors = [self.tensors[place] for place in changed]
        reading = read_norms(tensors, 0.0)
        if reading.words_wanted:
            return []
        found = []
        for place, tensor, norm in zip(changed, tensors, reading.values, strict=True):
            old, new = self._samples[place], _copy(tensor)
            cosine = math.nan
            if tensor.dim() > 1 and old is not None and new is not None and old.numel() >= 64:
                size = float(old.double().norm() * new.double().norm())
                cosine = float(old.double() @ new.double()) / size if size > 0 else math.nan
            self._samples[place] = new
            # Of small tensors (biases, scales) a norm says little.
            if tensor.dim() > 1 or not math.isfinite(norm):
                found.append(
                    Replacement(
                        parameter=self.labels[place],
                        before=self.norms[place],
                        after=norm,
                        cosine=cosine,
                    )
                )
        return found

    @torch.no_grad()
    def _read_samples(self) -> Reading:
        """Measure how far the sampled elements moved; the samples are taken anew."""
        differences: list[torch.Tensor | None] = []
        for place, tensor in enumerate(self.tensors):
            old, view = self._samples[place], sample_view(tensor)
            if old is None or view is None or old.shape != view.shape or old.dtype != view.dtype:
                self._samples[place] = None if view is None else view.clone()
                differences.append(None)
                continue
            differences.append(view - old)
            old.copy_(view)
        return read_norms(differences, NOTHING)

    def _fallen(
        self, rates: tuple[float, ...], gradients: Sequence[float], step: int
    ) -> Iterator[Movement]:
        """Yield parameters whose group's learning rate fell to zero while others' did not."""
        before, self._rates = self._rates, list(rates)
        for group, rate in enumerate(rates):
            self._highest[group] = max(self._highest.get(group, 0.0), rate)
        others = any(rate > 0 for rate in rates)
        for group, rate in enumerate(rates):
            if rate != 0 or not others:
                continue
            with_gradient = [
                place
                for place, each in enumerate(self.groups)
                if each == group and gradients[place] > 0
            ]
            if self._highest[group] == 0:
                self.still_at_zero.update(self.labels[place] for place in with_gradient)
            elif group < len(before) and before[group] > _FALL * self._highest[group]:
                what = f"group {group} went from {before[group]:.3g} to 0, others go on"
                for place in with_gradient:
                    yield from self._once(self.labels[place], Stillness.RATE_ZERO, step, what)

    def _still(
        self,
        optimizer: torch.optim.Optimizer,
        place: int,
        *,
        step: int,
        known: bool,
        lively: bool,
    ) -> Iterator[Movement]:
        """Yield a parameter that had a gradient and stayed where it was, unless that is right."""
        label, tensor = self.labels[place], self.tensors[place]
        streak = self._streak[label] = self._streak.get(label, 0) + 1
        group = optimizer.param_groups[self.groups[place]]
        if known:
            if streak & (streak - 1):
                return  # Looked at when it began, and every now and then.
            due = steps_due(optimizer, group, tensor)
            if due > _DUE:
                what = f"its update was {due:.3g} times the spacing of its values"
                yield from self._once(label, Stillness.UNMOVED, step, what)
            elif not math.isnan(due):
                self.num_rounded += 1
        elif lively and streak >= LONG and streak & (streak - 1) == 0:
            if _would_show(tensor, float(group["lr"])):
                what = f"for {streak} updates"
                since = step - streak + 1
                yield from self._once(label, Stillness.UNMOVED_LONG, since, what)
        elif not lively:
            self._streak[label] = 0

    def _once(
        self, label: str, kind: Stillness, since: int, detail: str = ""
    ) -> Iterator[Movement]:
        if (label, kind) not in self._told:
            self._told.add((label, kind))
            yield Movement(parameter=label, kind=kind, since=since, detail=detail)

    def _shares_memory(self, place: int, optimizer: torch.optim.Optimizer) -> bool:
        """Whether another parameter of the optimizer, also a late one, lies in the same memory."""
        tensor = self.tensors[place]
        mine = storage_address(tensor, absent=id(tensor))
        groups = (group["params"] for group in optimizer.param_groups)
        others = (other for params in (self.tensors, *groups) for other in params)
        return any(
            other is not tensor and storage_address(other, absent=id(other)) == mine
            for other in others
        )


def _copy(tensor: torch.Tensor) -> torch.Tensor | None:
    view = sample_view(tensor)
    return None if view is None else view.clone()


def _has_gradient(tensor: torch.Tensor) -> bool:
    gradient = tensor.grad
    plain = None if gradient is None else plain_values(gradient)
    return plain is not None and bool((plain != 0).any())


def _would_show(tensor: torch.Tensor, rate: float) -> bool:
    """Whether steps of the size of the learning rate, times the gradient or not, would show."""
    gradient = None if tensor.grad is None else plain_values(tensor.grad)
    plain = plain_values(tensor)
    if gradient is None or plain is None or not plain.numel():
        return False
    spacing = torch.finfo(plain.dtype).eps * float(plain.abs().max())
    largest = float(gradient.abs().max())
    return min(rate, rate * largest) > 4 * max(spacing, float(torch.finfo(plain.dtype).tiny))

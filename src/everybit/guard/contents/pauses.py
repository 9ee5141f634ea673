"""What other loaders do between two passes of one that shuffles."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader

from everybit.core.contents import Moved
from everybit.core.samples import Order
from everybit.detect.order_moved import OrderMoved
from everybit.guard.samples.promise import sampler_of
from everybit.probe.contents.streams import how_moved, state_of

if TYPE_CHECKING:
    from everybit.core.finding import Finding
    from everybit.core.samples import EpochEnd, SampleRecord
    from everybit.guard.samples.delivery import EpochStart


@dataclass(slots=True, eq=False)
class _Pauses:
    """One loader: what decides its order, and who drew from that since its last pass began."""

    source: weakref.ref[Any]
    generator: Any
    shuffles: bool
    others: dict[str, int] = field(default_factory=dict)
    left: Any = None
    begun: bool = False
    fresh: bool = False
    num_batches: int = 0
    num_for_updates: int = 0

    @property
    def is_trained_on(self) -> bool:
        """Whether most of its batches were for an update; a look at one makes no training."""
        return 2 * self.num_for_updates > self.num_batches

    def goes_on(self, num_before: int) -> None:
        """Take the batches before the first thing that is seen of a pass.

        One that goes on from a saved position has some: what others did since it really began, in
        another process, is not known, and its pause is not like the others.
        """
        if self.fresh and num_before:
            self.begun = False
        self.fresh = False


class Pauses:
    """Count passes over other loaders that draw from the stream which decides an order.

    Args:
        rank: Rank of this process.
    """

    def __init__(self, *, rank: int) -> None:
        self._rank = rank
        self._judge = OrderMoved()
        self._loaders: dict[str, _Pauses] = {}

    def begins(self, start: EpochStart) -> list[Finding]:
        """Take the beginning of a pass."""
        generator, drawn = _generators_of(start.source)
        known = self._loaders.get(start.loader)
        if known is None:
            shuffles = start.promise.order is Order.RANDOM
            known = _Pauses(weakref.ref(start.source), generator, shuffles)
            self._loaders[start.loader] = known
        elif known.source() is not start.source:  # Made anew for each epoch.
            known.source = weakref.ref(start.source)
        found = self._moved(start, known, generator) if known.begun and known.shuffles else []
        known.generator = generator
        known.others.clear()
        known.begun = known.fresh = True
        for name, other in self._loaders.items():
            if name != start.loader and any(other.generator is each for each in drawn):
                other.others[start.loader] = other.others.get(start.loader, 0) + 1
        return found

    def delivers(self, record: SampleRecord) -> None:
        """Take note of what a batch is for."""
        known = self._loaders.get(record.loader)
        if known is not None:
            known.num_batches += 1
            known.num_for_updates += record.step >= 0
            known.goes_on(record.batch)

    def ends(self, end: EpochEnd) -> None:
        """Take the end of a pass."""
        known = self._loaders.get(end.loader)
        if known is not None and known.shuffles:
            known.goes_on(end.num_batches)
            known.left = state_of(known.generator)

    def _moved(self, start: EpochStart, known: _Pauses, generator: Any) -> list[Finding]:
        if known.generator is not generator:
            return []
        others = {
            name: number
            for name, number in known.others.items()
            if not self._loaders[name].is_trained_on
        }
        return self._judge.judge_pause(
            start.loader,
            start.epoch,
            others,
            generator=generator is not torch.default_generator,
            seeded=_was_seeded(generator, known.left),
            step=start.step,
            rank=self._rank,
        )


def _generators_of(loader: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the generator that decides a loader's order, and all that a pass draws from."""
    if not isinstance(loader, DataLoader):
        return None, ()  # Whatever it draws from is the program's own.
    own = getattr(sampler_of(loader), "generator", None)
    given = getattr(loader, "generator", None)
    given = torch.default_generator if given is None else given
    decides = given if own is None else own
    return decides, (decides, given)


def _was_seeded(generator: Any, left: Any) -> bool:
    """Whether a generator was seeded since it was left in a state."""
    now = state_of(generator)
    if now is None or left is None:
        return False
    if how_moved(left, now) is Moved.RESEEDED:
        return True
    # With the same number again: it stands where a new one would.
    return bool(state_of(torch.Generator().manual_seed(generator.initial_seed())) == now)

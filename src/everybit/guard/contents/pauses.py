"""What other loaders do between two passes of one that shuffles."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from everybit.core.samples import Order
from everybit.detect.order_moved import OrderMoved
from everybit.probe.contents.streams import word_of

if TYPE_CHECKING:
    from everybit.core.finding import Finding
    from everybit.core.samples import EpochEnd
    from everybit.guard.samples.delivery import EpochStart


@dataclass(slots=True, eq=False)
class _Pauses:
    source: weakref.ref[Any]
    generator: Any
    shuffles: bool
    others: dict[str, int] = field(default_factory=dict)
    sharers: list[str] = field(default_factory=list)
    left: int = 0
    begun: bool = False


class Pauses:
    """Count passes over other loaders, and look whether a generator was left alone.

    Args:
        rank: Rank of this process.
    """

    def __init__(self, *, rank: int) -> None:
        self._rank = rank
        self._judge = OrderMoved()
        self._loaders: dict[str, _Pauses] = {}

    def begins(self, start: EpochStart) -> list[Finding]:
        """Take the beginning of a pass."""
        generator = _generator_of(start.source)
        known = self._loaders.get(start.loader)
        if known is None:
            shuffles = start.promise.order is Order.RANDOM
            known = _Pauses(weakref.ref(start.source), generator, shuffles)
            self._loaders[start.loader] = known
        found = self._moved(start, known, generator) if known.begun and known.shuffles else []
        known.others.clear()
        known.sharers.clear()
        known.begun = True
        for name, other in self._loaders.items():
            if name == start.loader:
                continue
            if generator is None:
                other.others[start.loader] = other.others.get(start.loader, 0) + 1
            elif other.generator is generator:
                other.sharers.append(start.loader)
        return found

    def ends(self, end: EpochEnd) -> None:
        """Take the end of a pass."""
        known = self._loaders.get(end.loader)
        if known is not None and known.generator is not None:
            known.left = word_of(known.generator)

    def dataset_of(self, loader: str) -> Any:
        """Return the data set of a loader; None where the loader is gone."""
        known = self._loaders.get(loader)
        return getattr(known.source(), "dataset", None) if known is not None else None

    def _moved(self, start: EpochStart, known: _Pauses, generator: Any) -> list[Finding]:
        at = {"step": start.step, "rank": self._rank}
        if generator is None:
            return self._judge.judge_pause(start.loader, start.epoch, known.others, **at)
        if not known.left or known.generator is not generator:
            return []
        by = known.sharers[0] if known.sharers else ""
        found = word_of(generator)
        return self._judge.judge_generator(
            start.loader, start.epoch, left=known.left, found=found, by=by, **at
        )


def _generator_of(loader: Any) -> Any:
    """Return the generator that decides a loader's order; None: the global stream."""
    sampler = getattr(loader, "sampler", None)
    own = getattr(sampler, "generator", None)
    return own if own is not None else getattr(loader, "generator", None)

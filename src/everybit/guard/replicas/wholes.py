"""What a step has left of tensors in shards, put on record as digests of the whole tensors.

A rank's own digest of a shard compares with nothing but the same shard. The sums of all shards add
up to those of the whole tensor, so that the record of four shards compares with that of four
copies, or of one process.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import xxhash

from everybit.core.link import Link
from everybit.core.verdict import Checked, Coverage, Skipped
from everybit.guard.replicas.row import INIT, WHOLE
from everybit.guard.replicas.whole import (
    flat_sums,
    is_first,
    is_split,
    num_sums,
    own_sums,
    sums_of,
)
from everybit.guard.shards import shard_of
from everybit.probe.memory import dtype_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from everybit.core.damage import Shard
    from everybit.guard.replicas.exchange import Exchange
    from everybit.guard.tracked import Tracked

    Lanes = NDArray[np.int64]

#: Kinds of observation: which tensors lie in shards, and digests of whole ones.
SHARDS: Final = "shards"
WHOLES: Final = "wholes"
#: Steps from one addition to the next, in comparisons: as many as keep the sums of a comparison
#: below so many bytes on average, and no more than so many.
_BYTES_EACH: Final = 32 << 10
MOST_EVERY: Final = 32
#: Sums that are added up at once; with more, another part of the tensors each time.
_MAX_LANES: Final = 8 << 20
_LANE_BYTES: Final = 8


@dataclass(frozen=True, eq=False)
class _Part:
    """A tensor of which this rank holds a shard."""

    item: Tracked
    shard: Shard
    num_bytes: int

    @property
    def num_lanes(self) -> int:
        return num_sums(self.num_bytes)


@dataclass(frozen=True, eq=False)
class Plan:
    """The tensors in shards among some names, in their order."""

    parts: tuple[_Part, ...]

    @cached_property
    def word(self) -> int:
        """A word for what is added up (63 bits, not 0)."""
        about = [
            (part.item.label, dtype_name(part.item.local.dtype), part.shard.global_shape)
            for part in self.parts
        ]
        return (xxhash.xxh3_64_intdigest(repr(about).encode()) >> 1) or 1

    @cached_property
    def every(self) -> int:
        """The cadence, in comparisons of replicas."""
        size = _LANE_BYTES * sum(part.num_lanes for part in self.parts)
        return min(MOST_EVERY, max(1, -(-size // _BYTES_EACH)))

    @cached_property
    def slices(self) -> list[range]:
        """Which of the tensors are added up at once."""
        slices, begin, lanes = [], 0, 0
        for index, part in enumerate(self.parts):
            if lanes + part.num_lanes > _MAX_LANES and index > begin:
                slices.append(range(begin, index))
                begin, lanes = index, 0
            lanes += part.num_lanes
        return [*slices, range(begin, len(self.parts))]

    def told(self) -> dict[str, Any]:
        """Return what is put on record of them."""
        return {
            "layout": f"{self.word:016x}",
            "names": [part.item.label for part in self.parts],
            "shapes": [list(part.shard.global_shape) for part in self.parts],
            "offsets": [list(part.shard.offset or ()) for part in self.parts],
            "local_shapes": [list(part.item.local.shape) for part in self.parts],
        }


@dataclass(frozen=True, eq=False)
class Taken:
    """What this rank adds to the sums of some tensors at a step.

    Attributes:
        plan: The tensors.
        chosen: Which of them.
        step: The update.
        link: `init` for what the first step began with, `update` for what a step has left.
        lanes: int64: bytes that this rank holds, then the sums of each tensor.
    """

    plan: Plan
    chosen: range
    step: int
    link: Link
    lanes: Lanes

    @property
    def word(self) -> int:
        """A word for all of this but the sums (63 bits, not 0)."""
        about = f"{self.plan.word} {self.chosen} {self.step} {self.link}"
        return (xxhash.xxh3_64_intdigest(about.encode()) >> 1) or 1


class Wholes:
    """Has the sums of shards added up over the ranks, and keeps the digests that come out.

    Attributes:
        num_digests: Digests of whole tensors that came out.
    """

    def __init__(self) -> None:
        self.num_digests = 0
        self._plans: dict[tuple[str, ...], Plan] = {}
        self._told: set[int] = set()
        self._begun: Taken | None = None
        self._has_begun = False
        self._observed: list[tuple[str, Mapping[str, Any]]] = []
        self._skipped: dict[str, str] = {}

    def begin(self, step: int, tracked: Iterable[Tracked], *, adds: bool) -> None:
        """Note what lies in shards, and take what the first step begins with; once only.

        Args:
            step: The update.
            tracked: Everything under marks.
            adds: Sums are to be added up.
        """
        if self._has_begun:
            return
        self._has_begun = True
        items = {item.label: item for item in tracked}
        plan = self._plan(tuple(items), items)
        if plan.parts:
            self._tell(plan)
            self._begun = self._take(Link.INIT, step, 0, plan) if adds else None

    def take(
        self,
        step: int,
        number: int,
        names: tuple[str, ...],
        tracked: Callable[[], Iterable[Tracked]],
    ) -> list[Taken]:
        """Return what is to be added up at the end of a step.

        Args:
            step: The update.
            number: Of the comparison of replicas, from 0.
            names: Of parameters, buffers and optimizer state of the update.
            tracked: Called for everything under marks.
        """
        begun, self._begun = self._begun, None
        taken = [] if begun is None else [begun]
        plan = self._plans.get(names)
        if plan is None:
            plan = self._plan(names, {item.label: item for item in tracked()})
        if plan.parts and number % plan.every == 0:
            if not all(part.item.in_place for part in plan.parts):  # A load has put in others.
                plan = self._plan(names, {item.label: item for item in tracked()})
            now = self._take(Link.UPDATE, step, number // plan.every, plan)
            taken += [now] if now is not None else []
        return taken

    def keep(self, taken: Taken, added: Lanes) -> None:
        """Keep what came out of an addition.

        Args:
            taken: What this rank had put in.
            added: int64, shape `(1, lanes)`; `(0, lanes)` where the ranks did not agree on it.
        """
        if not len(added):
            why = "not all ranks hold shards of the same tensors"
            self._skipped["digests of whole tensors"] = why
            return
        parts = [taken.plan.parts[index] for index in taken.chosen]
        if added[0, 0] != sum(part.num_bytes for part in parts):
            why = "their shards do not make up the whole, or do so more than once"
            self._skipped["digests of whole tensors"] = why
            return
        flat, at, words = added[0].view(np.uint64), 1, []
        for part in parts:
            sums = sums_of(flat[at : at + part.num_lanes], part.num_bytes)
            at += part.num_lanes
            dtype = dtype_name(part.item.local.dtype)
            words.append(sums.digest(dtype, part.shard.global_shape).word)
        self.num_digests += len(words)
        self._tell(taken.plan)
        facts = {
            "layout": f"{taken.plan.word:016x}",
            "of": taken.step,
            "link": str(taken.link),
            "first": taken.chosen.start,
            "words": [f"{word:016x}" for word in words],
        }
        self._observed.append((WHOLES, facts))

    def observed(self) -> list[tuple[str, Mapping[str, Any]]]:
        """Return what has not been put on record yet."""
        found, self._observed = self._observed, []
        return found

    def coverage(self) -> Coverage:
        """Return how many digests came out, and why not more."""
        checked: tuple[Checked, ...] = ()
        if self.num_digests:
            checked = (Checked(what="digests of whole tensors in shards", count=self.num_digests),)
        skipped = [Skipped(what=w, why=y, promised=False) for w, y in self._skipped.items()]
        return Coverage(checked=checked, skipped=tuple(skipped))

    def _tell(self, plan: Plan) -> None:
        if plan.word not in self._told:
            self._told.add(plan.word)
            self._observed.append((SHARDS, plan.told()))

    def _plan(self, names: tuple[str, ...], tracked: Mapping[str, Tracked]) -> Plan:
        parts = []
        for name in names:
            item = tracked.get(name)
            shard = None if item is None else shard_of(item.tensor)
            if item is None or shard is None or not is_split(item.tensor):
                continue
            if shard.offset is None:
                self._skipped[f"digest of {name} as a whole"] = "its shards are no plain blocks"
                continue
            num_bytes = int(np.prod(shard.global_shape)) * item.local.element_size()
            parts.append(_Part(item, shard, num_bytes))
        plan = self._plans[names] = Plan(tuple(parts))
        return plan

    def _take(self, link: Link, step: int, turn: int, plan: Plan) -> Taken | None:
        if not plan.parts:
            return None
        chosen = plan.slices[turn % len(plan.slices)]
        own, lanes = 0, []
        for part in (plan.parts[index] for index in chosen):
            tensor = part.item.tensor
            if is_first(tensor):
                own += part.item.local.numel() * part.item.local.element_size()
            lanes.append(flat_sums(own_sums(tensor, part.shard)))
        flat = np.concatenate([np.array([own], np.uint64), *lanes])
        return Taken(plan, chosen, step, link, flat.view(np.int64))


def words_for(taken: Sequence[Taken]) -> tuple[int, int]:
    """Return the words of the row for what is to be added up, 0 where there is none."""
    by_link = {each.link: each.word for each in taken}
    return by_link.get(Link.INIT, 0), by_link.get(Link.UPDATE, 0)


def add_up(exchange: Exchange, taken: Sequence[Taken]) -> list[tuple[int, Taken]]:
    """Begin the additions that the row which was begun last has announced."""
    return [
        (exchange.add(INIT if each.link is Link.INIT else WHOLE, each.lanes), each)
        for each in taken
    ]

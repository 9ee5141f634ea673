"""The check on the reduction: what comes out of it is the mean of what the ranks sent (RNK802)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
import xxhash

from everybit.detect.reduction import WrongReduction, judge_reduction
from everybit.guard.replicas.block_sums import (
    MAX_BLOCKS,
    Blocks,
    Rounding,
    absolute_sums,
    cut,
    signed_sums,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from everybit.core.finding import Finding
    from everybit.guard.replicas.block_sums import Floats
    from everybit.guard.replicas.reduced import Reduced

    Row = NDArray[np.int64]

#: Steps from one check to the next, in checked steps, where no step is replayed more often.
EVERY: Final = 32
#: Lanes of a row.
NUM_LANES: Final = 2 + 3 * MAX_BLOCKS


@dataclass(eq=False)
class Sums:
    """What this rank sent into the reductions of one step, and what it got back.

    Attributes:
        step: The update.
        names: Parameters, in the order of the wrapper.
        blocks: Their blocks; None for one that is not looked at this time.
        roundings: What the reduction of each rounds.
        divisors: What the sum of each is divided by.
        ranks: The ranks that are reduced together.
        row: As shown to the other ranks: the step, a word for all of the above, then for each
            block the sum sent, the sum of absolute values sent, and the sum got back.
        replicas: Where each rank gets a part of what comes out: the ranks that hold all of it
            together, a tuple for each copy.
    """

    step: int
    names: list[str] = field(default_factory=list)
    blocks: list[Blocks | None] = field(default_factory=list)
    roundings: list[Rounding] = field(default_factory=list)
    divisors: list[float] = field(default_factory=list)
    ranks: tuple[int, ...] = ()
    row: Row = field(default_factory=lambda: np.zeros(NUM_LANES, np.int64))
    replicas: tuple[tuple[int, ...], ...] = ()


class Reduction:
    """Sums of the gradients of one step, before the reduction and behind it.

    While a step is looked at, a hook on each parameter sees its gradient when it is accumulated:
    that is before the wrapper takes it into a bucket.

    Args:
        every: Cadence of replay, in steps; 0 for never.

    Attributes:
        num_checked: Reduced gradients whose sums were compared.
    """

    def __init__(self, every: int) -> None:
        self.num_checked = 0
        self._every = min(EVERY, every) if every else EVERY
        self._hooks: list[Any] = []
        self._reduced: Sequence[Reduced] = ()
        self._waiting: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._before: dict[int, torch.Tensor] = {}
        self._sent: dict[int, tuple[torch.Tensor, torch.Tensor] | None] = {}
        self._got: dict[int, torch.Tensor] = {}
        self._sums: Sums | None = None

    def is_due(self, number: int) -> bool:
        """Whether a checked step, counted from 0, is looked at."""
        return number % self._every == 0

    def begin(
        self,
        step: int,
        turn: int,
        reduced: Sequence[Reduced],
        ranks: tuple[int, ...],
        replicas: tuple[tuple[int, ...], ...] = (),
    ) -> None:
        """Look at the backward pass that comes, whose gradients will be reduced.

        Args:
            step: The update.
            turn: Counts the steps that are looked at.
            reduced: What is reduced.
            ranks: The ranks that are reduced together.
            replicas: Of shards: the ranks of each copy.
        """
        self.stop()
        self._reduced = reduced
        self._sums = Sums(
            step,
            [each.name for each in reduced],
            cut([each.source.numel() for each in reduced], turn=turn),
            [each.rounding for each in reduced],
            [each.divisor for each in reduced],
            ranks,
            replicas=replicas,
        )
        for each, blocks in zip(reduced, self._sums.blocks, strict=True):
            if blocks is not None:
                self._hook(each, blocks)

    def _hook(self, reduced: Reduced, blocks: Blocks) -> None:
        key = id(reduced.parameter)
        if self._sums is not None and self._sums.replicas:
            with torch.no_grad():
                if (waiting := reduced.waiting()) is not None:
                    self._waiting[key] = _both(waiting, blocks)
                if (before := reduced.got(blocks)) is not None:
                    self._before[key] = before

        def accumulated(accumulated_on: torch.Tensor) -> None:
            gradient = accumulated_on.grad
            if gradient is None or gradient.layout is not torch.strided:
                return
            with torch.no_grad():
                sums = _both(gradient, blocks)
                if key in self._waiting:
                    more = self._waiting[key]
                    sums = sums[0] + more[0], sums[1] + more[1]
                # What went in twice in a pass of FSDP has been reduced twice.
                twice = key in self._sent and reduced.source is not reduced.parameter
                self._sent[key] = None if twice else sums

        source: Any = reduced.source
        self._hooks.append(source.register_post_accumulate_grad_hook(accumulated))

    def end(self) -> None:
        """Take the gradients as the reduction has left them."""
        if self._sums is None or not self._hooks:
            return
        self._remove_hooks()
        for each, blocks in zip(self._reduced, self._sums.blocks, strict=True):
            key = id(each.parameter)
            sent = self._sent.get(key)
            if sent is None or blocks is None:
                continue
            with torch.no_grad():
                got = each.got(blocks)
                if got is None:
                    continue
                if key in self._before:
                    # What comes out was added to what was there, which has rounded the sum.
                    got = got - self._before[key]
                    self._sent[key] = sent[0], sent[1] + self._room(each, blocks).to(sent[1].device)
            # A shard may lie on the host (CPU offload).
            self._got[key] = got.to(sent[0].device)

    def _room(self, reduced: Reduced, blocks: Blocks) -> torch.Tensor:
        """Return what is to be added to the absolute sums, so that the bound has room for more."""
        after = reduced.got(blocks, signed=False)
        assert after is not None
        unit = torch.finfo(reduced.parameter.dtype).eps / 2
        return after * (unit * reduced.divisor / reduced.rounding.relative(blocks.size))

    def take(self, step: int) -> Sums:
        """Return what this step has to show, which is empty where nothing was looked at."""
        sums = self._sums
        if sums is None or sums.step != step or self._hooks:
            self.stop()
            return Sums(step, row=_row_of(step))
        floats = np.full((3, MAX_BLOCKS), np.nan)
        for each, blocks in zip(self._reduced, sums.blocks, strict=True):
            key = id(each.parameter)
            sent = self._sent.get(key)
            if blocks is not None and sent is not None and key in self._got:
                at = slice(blocks.start, blocks.start + blocks.count)
                floats[:, at] = torch.stack([*sent, self._got[key]]).cpu().numpy()
        sums.row = _row_of(step)
        cuts = [(b.num_elements, b.size, b.start) if b else None for b in sums.blocks]
        # How often a rank rounds may depend on what it had there; the dtypes do not.
        dtypes = [f"{each.dtype} {each.result}" for each in sums.roundings]
        about = repr((sums.names, cuts, dtypes, sums.divisors, sums.ranks, sums.replicas))
        sums.row[1] = (xxhash.xxh3_64_intdigest(about.encode()) >> 1) or 1
        sums.row[2:] = floats.reshape(-1).view(np.int64)
        self.stop()
        return sums

    def stop(self) -> None:
        """Look at nothing any more."""
        self._remove_hooks()
        self._reduced, self._sums = (), None
        self._sent, self._got = {}, {}
        self._waiting, self._before = {}, {}

    def judge(self, sums: Sums, rows: Row, rank: int) -> list[Finding]:
        """Compare what came out with what all ranks sent.

        Args:
            sums: This rank's.
            rows: Of all ranks, shape `(ranks, lanes)`.
            rank: This process's rank.
        """
        ranks = list(sums.ranks)
        alike = bool(ranks) and (rows[ranks, :2] == sums.row[:2]).all()
        if not alike:
            return []
        floats = np.ascontiguousarray(rows[ranks, 2:]).view(np.float64)
        sent, absolute, got = floats.reshape(len(ranks), 3, MAX_BLOCKS).transpose(1, 0, 2)
        wrong = []
        about = zip(sums.names, sums.blocks, sums.roundings, sums.divisors, strict=True)
        for name, blocks, rounding, divisor in about:
            if blocks is None:
                continue
            at = slice(blocks.start, blocks.start + blocks.count)
            parts = got[:, at]
            if sums.replicas:  # Their parts add up to what all of them would have got.
                places = [[ranks.index(one) for one in copy] for copy in sums.replicas]
                parts = np.stack([parts[place].sum(0) for place in places])
            each = _Part(sent[:, at], absolute[:, at], parts, blocks, rounding, divisor)
            self.num_checked += each.is_known
            # Where the copies are not the same, the digests tell, and tell whose.
            is_same = bool(sums.replicas) or each.is_same
            if each.is_known and is_same and rank == ranks[0]:
                wrong += each.wrong(name, ranks)
        return judge_reduction(wrong, step=sums.step)

    def _remove_hooks(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []


@dataclass(frozen=True, eq=False)
class _Part:
    """One parameter's sums on all ranks, float64 of shape `(ranks, blocks)` each.

    What came out has a row for each copy of the whole.
    """

    sent: Floats
    absolute: Floats
    got: Floats
    blocks: Blocks
    rounding: Rounding
    divisor: float

    @property
    def is_known(self) -> bool:
        """Whether all ranks have them; gradients that overflowed have none."""
        known = [self.sent, self.absolute]
        # In so narrow a range a cast, or a sum, overflows what had not.
        known += [self.got] if self.rounding.dtype is torch.float16 else []
        return all(bool(np.isfinite(each).all()) for each in known)

    @property
    def is_same(self) -> bool:
        return bool((self.got.view(np.int64) == self.got[0].view(np.int64)).all())

    def wrong(self, name: str, ranks: Sequence[int]) -> list[WrongReduction]:
        """Return the blocks that lie outside of the bound, folded into one value."""
        expected = self.sent.sum(0) / self.divisor
        bound = self._bound()
        distances = np.abs(self.got - expected)
        # A sum that is no number is outside.
        worst_copy = int(np.argmax(np.nan_to_num(distances / bound, nan=np.inf).max(1)))
        found = self.got[worst_copy]
        off = np.flatnonzero(~(distances[worst_copy] <= bound))
        if not len(off):
            return []
        worst = int(off[np.argmax(distances[worst_copy, off])])
        rank, what = self._whose(found - expected, ranks, off, bound)
        return [
            WrongReduction(
                parameter=name,
                ranks=tuple(ranks),
                element_ranges=tuple(self.blocks.elements(int(block)) for block in off),
                expected=float(expected[worst]),
                found=float(found[worst]),
                bound=float(bound[worst]),
                culprit=rank,
                what=what,
                dtype=str(self.rounding.dtype).removeprefix("torch."),
            )
        ]

    def _bound(self) -> Floats:
        size = self.blocks.size
        total: Floats = self.absolute.sum(0) / self.divisor
        return total * self.rounding.relative(size) + self.rounding.least(size)

    def _whose(
        self, difference: Floats, ranks: Sequence[int], off: NDArray[np.intp], bound: Floats
    ) -> tuple[int | None, str]:
        """Return the rank whose part explains the difference, and how; None where none does."""
        for what, sign in (("is missing", -1.0), ("is in it twice", 1.0)):
            for index, rank in enumerate(ranks):
                part = sign * self.sent[index, off] / self.divisor
                if (np.abs(difference[off] - part) <= bound[off]).all():
                    return rank, what
        return None, ""


def _both(gradient: torch.Tensor, blocks: Blocks) -> tuple[torch.Tensor, torch.Tensor]:
    return signed_sums(gradient, blocks), absolute_sums(gradient, blocks)


def _row_of(step: int) -> Row:
    row = np.zeros(NUM_LANES, np.int64)
    row[0] = step
    return row

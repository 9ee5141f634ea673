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
    absolute_sums,
    bound_of,
    cut,
    shard_sums,
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
        dtypes: Of their gradients.
        ranks: The ranks that are reduced together.
        row: As shown to the other ranks: the step, a word for all of the above, then for each
            block the sum sent, the sum of absolute values sent, and the sum got back.
        sharded: Each rank gets a part of what comes out; else all of it.
    """

    step: int
    names: list[str] = field(default_factory=list)
    blocks: list[Blocks | None] = field(default_factory=list)
    dtypes: list[torch.dtype] = field(default_factory=list)
    ranks: tuple[int, ...] = ()
    row: Row = field(default_factory=lambda: np.zeros(NUM_LANES, np.int64))
    sharded: bool = False


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
        self._sent: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
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
    ) -> None:
        """Look at the backward pass that comes, whose gradients will be reduced.

        Args:
            step: The update.
            turn: Counts the steps that are looked at.
            reduced: What is reduced.
            ranks: The ranks that are reduced together.
        """
        self.stop()
        self._reduced = reduced
        self._sums = Sums(
            step,
            [each.name for each in reduced],
            cut([each.parameter.numel() for each in reduced], turn=turn),
            [each.parameter.dtype for each in reduced],
            ranks,
            sharded=any(each.start is not None for each in reduced),
        )
        for each, blocks in zip(reduced, self._sums.blocks, strict=True):
            if blocks is not None:
                self._hooks.append(self._hook(each.source, each.parameter, blocks))

    def _hook(self, source: Any, parameter: torch.Tensor, blocks: Blocks) -> Any:
        def accumulated(accumulated_on: torch.Tensor) -> None:
            gradient = accumulated_on.grad
            if gradient is not None and gradient.layout is torch.strided:
                with torch.no_grad():
                    sums = signed_sums(gradient, blocks), absolute_sums(gradient, blocks)
                    self._sent[id(parameter)] = sums

        return source.register_post_accumulate_grad_hook(accumulated)

    def end(self) -> None:
        """Take the gradients as the reduction has left them."""
        if self._sums is None or not self._hooks:
            return
        self._remove_hooks()
        for each, blocks in zip(self._reduced, self._sums.blocks, strict=True):
            gradient = each.gradient
            if id(each.parameter) not in self._sent or blocks is None or gradient is None:
                continue
            with torch.no_grad():
                got = (
                    signed_sums(gradient, blocks)
                    if each.start is None
                    else shard_sums(gradient, blocks, each.start)
                )
            # A shard may lie on the host (CPU offload).
            self._got[id(each.parameter)] = got.to(self._sent[id(each.parameter)][0].device)

    def take(self, step: int) -> Sums:
        """Return what this step has to show, which is empty where nothing was looked at."""
        sums = self._sums
        if sums is None or sums.step != step or self._hooks:
            self.stop()
            return Sums(step, row=_row_of(step))
        floats = np.full((3, MAX_BLOCKS), np.nan)
        for each, blocks in zip(self._reduced, sums.blocks, strict=True):
            parameter = each.parameter
            if blocks is not None and id(parameter) in self._got:
                at = slice(blocks.start, blocks.start + blocks.count)
                signed, absolute = self._sent[id(parameter)]
                got = self._got[id(parameter)]
                floats[:, at] = torch.stack([signed, absolute, got]).cpu().numpy()
        sums.row = _row_of(step)
        cuts = [(b.num_elements, b.size, b.start) if b else None for b in sums.blocks]
        dtypes = [str(dtype) for dtype in sums.dtypes]
        about = repr((sums.names, cuts, dtypes, sums.ranks, sums.sharded))
        sums.row[1] = (xxhash.xxh3_64_intdigest(about.encode()) >> 1) or 1
        sums.row[2:] = floats.reshape(-1).view(np.int64)
        self.stop()
        return sums

    def stop(self) -> None:
        """Look at nothing any more."""
        self._remove_hooks()
        self._reduced, self._sums = (), None
        self._sent, self._got = {}, {}

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
        for name, blocks, dtype in zip(sums.names, sums.blocks, sums.dtypes, strict=True):
            if blocks is None:
                continue
            at = slice(blocks.start, blocks.start + blocks.count)
            part = got[:, at]
            if sums.sharded:  # Their parts add up to what all of them would have got.
                part = np.broadcast_to(part.sum(0), part.shape).copy()
            each = _Part(sent[:, at], absolute[:, at], part, blocks, dtype, sums.sharded)
            self.num_checked += each.is_known
            # Where the copies are not the same, the digests tell, and tell whose.
            if each.is_known and each.is_same and rank == ranks[0]:
                wrong += each.wrong(name, ranks)
        return judge_reduction(wrong, step=sums.step)

    def _remove_hooks(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []


@dataclass(frozen=True, eq=False)
class _Part:
    """One parameter's sums on all ranks, float64 of shape `(ranks, blocks)` each."""

    sent: Floats
    absolute: Floats
    got: Floats
    blocks: Blocks
    dtype: torch.dtype
    sharded: bool = False

    @property
    def is_known(self) -> bool:
        """Whether all ranks have them; gradients that overflowed have none."""
        return bool(np.isfinite(self.sent).all() and np.isfinite(self.absolute).all())

    @property
    def is_same(self) -> bool:
        return bool((self.got.view(np.int64) == self.got[0].view(np.int64)).all())

    def wrong(self, name: str, ranks: Sequence[int]) -> list[WrongReduction]:
        """Return the blocks that lie outside of the bound, folded into one value."""
        expected, found = self.sent.mean(0), self.got[0]
        bound = self._bound()
        off = np.flatnonzero(~(np.abs(found - expected) <= bound))
        if not len(off):
            return []
        worst = int(off[np.argmax(np.abs(found - expected)[off])])
        rank, what = self._whose(ranks, off, bound)
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
                dtype=str(self.dtype).removeprefix("torch."),
            )
        ]

    def _bound(self) -> Floats:
        return bound_of(
            self.absolute.mean(0),
            num_ranks=len(self.sent),
            dtype=self.dtype,
            size=self.blocks.size,
            # FSDP may divide before the sum and after it.
            factors=2 if self.sharded else 1,
        )

    def _whose(
        self, ranks: Sequence[int], off: NDArray[np.intp], bound: Floats
    ) -> tuple[int | None, str]:
        """Return the rank whose part explains the difference, and how; None where none does."""
        difference = (self.got[0] - self.sent.mean(0))[off]
        for what, sign in (("is missing", -1.0), ("is in it twice", 1.0)):
            for index, rank in enumerate(ranks):
                part = sign * self.sent[index, off] / len(ranks)
                if (np.abs(difference - part) <= bound[off]).all():
                    return rank, what
        return None, ""


def _row_of(step: int) -> Row:
    row = np.zeros(NUM_LANES, np.int64)
    row[0] = step
    return row

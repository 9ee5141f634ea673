"""Gradients that a job reduces: what a rank puts into the reduction, and what it gets out of it.

Under `DistributedDataParallel` each rank gets the whole mean. Under FSDP2 each gets its own part of
the mean, in the gradient of its shard; what it puts in is the gradient of the gathered parameter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from everybit.guard.replicas.block_sums import Rounding, absolute_sums, shard_sums, signed_sums
from everybit.guard.shards import local_of

if TYPE_CHECKING:
    from everybit.core.damage import Shard
    from everybit.guard.replicas.block_sums import Blocks


@dataclass(frozen=True, eq=False)
class Reduced:
    """One gradient that is reduced, and comes back whole.

    Attributes:
        name: Of the parameter.
        parameter: Holds the reduced gradient.
        source: The gradient that goes in is accumulated on this; the parameter itself under DDP.
        rounding: What the reduction rounds.
        divisor: What the sum over the ranks is divided by.
    """

    name: str
    parameter: torch.Tensor
    source: torch.Tensor
    rounding: Rounding
    divisor: float

    @property
    def gradient(self) -> torch.Tensor | None:
        """What is there of the reduction here; None where nothing is."""
        found = self.parameter.grad
        return None if found is None else local_of(found)

    def waiting(self) -> torch.Tensor | None:
        """Return what goes in beside what backward accumulates on the source."""
        return None

    def got(self, blocks: Blocks, *, signed: bool = True) -> torch.Tensor | None:
        """Return the sums of what is there of the reduction here, float64, one a block.

        Args:
            blocks: Of the whole.
            signed: Else of absolute values.
        """
        gradient = self.gradient
        if gradient is None:
            return None
        return signed_sums(gradient, blocks) if signed else absolute_sums(gradient, blocks)


@dataclass(frozen=True, eq=False)
class ScatteredGradient(Reduced):
    """One gradient of which each rank gets a part.

    Attributes:
        shard: Which part of the whole.
        kept: What FSDP keeps of the parameter.
    """

    shard: Shard
    kept: Any

    def waiting(self) -> torch.Tensor | None:
        """Return what earlier passes have left, in the dtype of the reduction."""
        found: torch.Tensor | None = self.kept.unsharded_accumulated_grad
        return found

    def got(self, blocks: Blocks, *, signed: bool = True) -> torch.Tensor | None:
        """Return what the part adds to the sums of the whole."""
        gradient = self.gradient
        if gradient is None:
            return None
        assert self.shard.offset is not None
        shape = self.shard.global_shape
        start = self.shard.offset[0] * math.prod(shape[1:]) if shape else 0
        if gradient.numel() and tuple(gradient.shape[1:]) != shape[1:]:
            # Its runs are short: zeros elsewhere add nothing.
            whole = torch.zeros(shape, dtype=gradient.dtype, device=gradient.device)
            ends = zip(self.shard.offset, gradient.shape, strict=True)
            whole[tuple(slice(at, at + length) for at, length in ends)] = gradient
            gradient, start = whole, 0
        return shard_sums(gradient, blocks, start, signed=signed)

"""Signed sums of a gradient in blocks, in float64, and the bound on what a reduction rounds.

Each rank sends the sums of its own gradient; those of the mean are the mean of them, but for the
rounding of the reduction. Signs, plus or minus one in a fixed pseudorandom order, keep values that
changed places from cancelling.

The bound: a reduction of N ranks multiplies each value by the rounded 1/N (two roundings) and adds
N values in some order (N - 1 roundings at most), so that each term bears a relative error of
(N + 1) u at most, u the unit roundoff (Higham, Accuracy and Stability of Numerical Algorithms, 2nd
edition, section 4.2). Summed over a block that is (N + 1) u times the mean of the ranks' sums of
absolute values; sums in float64 and results below the normal range add a little.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: Blocks of all gradients of a step together.
MAX_BLOCKS: Final = 2048
#: A block has no fewer elements, but at the end of a tensor.
MIN_ELEMENTS: Final = 256
_SEED: Final = 802


@dataclass(frozen=True)
class Blocks:
    """Into which blocks a tensor is cut.

    Attributes:
        num_elements: Of the tensor.
        size: Elements of a block; the last one may be shorter.
        start: The place of the first block among those of all tensors.
    """

    num_elements: int
    size: int
    start: int

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return -(-self.num_elements // self.size)

    def elements(self, block: int) -> tuple[int, int]:
        """Return the `[start, end)` elements of a block."""
        return block * self.size, min((block + 1) * self.size, self.num_elements)


def cut(sizes: Sequence[int], *, turn: int = 0) -> list[Blocks | None]:
    """Share out the blocks among tensors by their size, one at least each.

    Args:
        sizes: Elements of each tensor.
        turn: Where there are more tensors than blocks, counts up to which of them get one.

    Returns:
        The blocks of each tensor, None where it gets none this time, or is empty.

    >>> cut([600, 10, 0])
    [Blocks(num_elements=600, size=256, start=0), Blocks(num_elements=10, size=256, start=3), None]
    """
    chosen: Sequence[int] = range(len(sizes))
    if len(sizes) > MAX_BLOCKS:
        first = turn * MAX_BLOCKS % len(sizes)
        wanted = {(first + i) % len(sizes) for i in range(MAX_BLOCKS)}
        chosen = [index for index in chosen if index in wanted]
    total = sum(sizes[index] for index in chosen)
    # Rounding up gives each tensor one block more than its share at most.
    room = MAX_BLOCKS - len(chosen)
    size = max(MIN_ELEMENTS, -(-total // room) if room else total)
    blocks: list[Blocks | None] = [None] * len(sizes)
    at = 0
    for index in chosen:
        if sizes[index]:
            each = Blocks(sizes[index], size, at)
            blocks[index] = each
            at += each.count
    return blocks


@lru_cache(maxsize=8)
def _signs(size: int, device: torch.device) -> torch.Tensor:
    drawn = np.random.default_rng(_SEED).integers(0, 2, size)
    return torch.from_numpy(drawn * 2.0 - 1.0).to(device)


def signed_sums(gradient: torch.Tensor, blocks: Blocks) -> torch.Tensor:
    """Return the signed sum of each block: float64, shape `(blocks,)`, on the gradient's device."""
    signs = _signs(blocks.size, gradient.device)
    body, rest = _split(gradient, blocks)
    sums = body.to(torch.float64) @ signs
    if not len(rest):
        return sums
    last = rest.to(torch.float64) @ signs[: len(rest)]
    return torch.cat([sums, last.reshape(1)])


def shard_sums(
    shard: torch.Tensor, blocks: Blocks, start: int, *, signed: bool = True
) -> torch.Tensor:
    """Return what a shard adds to the signed sum of each block of the whole.

    Args:
        shard: A run of the whole's elements, in order.
        blocks: Of the whole.
        start: The flat index at which the shard begins.
        signed: Else the sums are of absolute values.

    Returns:
        float64, shape `(blocks,)`, on the shard's device.
    """
    found = torch.zeros(blocks.count, dtype=torch.float64, device=shard.device)
    flat = shard.detach().reshape(-1)
    if not len(flat):
        return found
    before = start % blocks.size
    padded = torch.nn.functional.pad(flat, (before, -(before + len(flat)) % blocks.size))
    rows = padded.view(-1, blocks.size).to(torch.float64)
    sums = rows @ _signs(blocks.size, shard.device) if signed else rows.abs().sum(1)
    first = start // blocks.size
    found[first : first + len(sums)] = sums
    return found


def absolute_sums(gradient: torch.Tensor, blocks: Blocks) -> torch.Tensor:
    """Return the sum of absolute values of each block, rounded as the gradient's dtype does.

    Returns:
        float64, shape `(blocks,)`, on the gradient's device.
    """
    body, rest = _split(gradient, blocks)
    wide = torch.promote_types(gradient.dtype, torch.float32)
    sums: torch.Tensor = torch.linalg.vector_norm(body, 1, dim=1, dtype=wide).to(torch.float64)
    if not len(rest):
        return sums
    last = torch.linalg.vector_norm(rest, 1, dtype=wide).to(torch.float64)
    return torch.cat([sums, last.reshape(1)])


def _split(gradient: torch.Tensor, blocks: Blocks) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the whole blocks as rows, and what is left."""
    flat = gradient.detach().reshape(-1)
    whole = blocks.num_elements // blocks.size
    return flat[: whole * blocks.size].view(whole, blocks.size), flat[whole * blocks.size :]


@dataclass(frozen=True, kw_only=True)
class Rounding:
    """How often a reduction rounds, and in which dtypes.

    Attributes:
        num_ranks: How many ranks are reduced.
        dtype: The dtype that values are added in.
        factors: How often values are multiplied or divided; each time rounds twice.
        casts: How often they are rounded to `dtype`, or added to once more, besides.
        result: The dtype of what comes out; None where it is the same.
    """

    num_ranks: int
    dtype: torch.dtype
    factors: int = 1
    casts: int = 0
    result: torch.dtype | None = None

    def relative(self, size: int) -> float:
        """Return the relative error of a block of so many elements, for its absolute sum."""
        roundings = self.num_ranks - 1 + 2 * self.factors + self.casts
        error = roundings * torch.finfo(self.dtype).eps / 2
        error /= 1 - error
        if self.result is not None:
            error += torch.finfo(self.result).eps / 2 * (1 + error)
        # The sums of absolute values are rounded themselves, in float32 at the least.
        error *= 1 + size * float(np.finfo(np.float32).eps)
        return error + size * float(np.finfo(np.float64).eps)

    def least(self, size: int) -> float:
        """Return what results below the normal range may add to the error of a block."""
        infos = [torch.finfo(each) for each in (self.dtype, self.result) if each is not None]
        return size * self.num_ranks * max(float(i.smallest_normal) * i.eps for i in infos)

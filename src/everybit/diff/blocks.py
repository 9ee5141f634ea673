"""Block sums of one tensor in two runs: how many blocks moved, by how much, and the odd one out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Blocks that a row of sums begins with; what follows is the L2 norm, then the largest magnitude.
NUM_BLOCKS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockChange:
    """What two rows of block sums say of a tensor.

    Attributes:
        num_blocks: Blocks that hold anything.
        num_moved: Blocks whose sums differ to the bit.
        relative: Root of the summed squares of the changes over the L2 norm of A: where errors are
            independent, their sums over blocks have the variance of the whole, so this estimates
            the relative L2 distance. NaN where a side is not finite.
        outlier: Largest change over the upper quartile of all changes that are not zero; 1 where
            one block moved.
        worst: The block that changed most; -1 where none did.
    """

    num_blocks: int
    num_moved: int
    relative: float
    outlier: float
    worst: int


def compare_blocks(a: Sequence[float], b: Sequence[float]) -> BlockChange | None:
    """Compare two rows of sums of one tensor; None where they are no rows of the same length.

    Args:
        a: Signed block sums of A, float64, then its L2 norm and largest magnitude.
        b: The same of B.

    >>> change = compare_blocks([1.0] * 64 + [8.0, 1.0], [1.0] * 63 + [1.5, 8.0, 1.5])
    >>> change.num_blocks, change.num_moved, change.relative, change.worst
    (64, 1, 0.0625, 63)
    """
    if len(a) != len(b) or len(a) < 2:
        return None
    num_blocks = min(NUM_BLOCKS, len(a))
    changes = [_distance(one, other) for one, other in zip(a, b, strict=True)][:num_blocks]
    # A tensor with fewer elements than blocks leaves the last ones empty.
    held = [at for at in range(num_blocks) if a[at] or b[at]]
    moved = sorted(change for change in changes if change)
    if not moved:
        # Below the resolution of the sums: no broad difference would leave all of them alone.
        return BlockChange(num_blocks=len(held), num_moved=0, relative=0.0, outlier=1.0, worst=-1)
    norm = max(float(a[num_blocks]) if len(a) > num_blocks else 0.0, _root_sum(a[:num_blocks]))
    total = _root_sum(changes)
    return BlockChange(
        num_blocks=max(len(held), len(moved)),
        num_moved=len(moved),
        relative=total / norm if norm and math.isfinite(norm) else math.nan,
        outlier=moved[-1] / moved[(3 * (len(moved) - 1)) // 4],
        worst=max(range(num_blocks), key=changes.__getitem__),
    )


def _distance(a: float, b: float) -> float:
    """Return how far two sums lie apart; two equal infinities or two NaN lie nowhere apart."""
    if a == b or (a != a and b != b):
        return 0.0
    distance = abs(a - b)
    return distance if math.isfinite(distance) else math.inf


def _root_sum(values: Sequence[float]) -> float:
    return math.sqrt(math.fsum(value * value for value in values)) if _finite(values) else math.inf


def _finite(values: Sequence[float]) -> bool:
    return all(math.isfinite(value) and abs(value) < 1e150 for value in values)

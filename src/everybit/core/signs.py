"""The fixed pattern of signs with which block sums add up the elements of a tensor.

Element `j` of every block has the sign + where the top bit of SplitMix64's output for the state `j`
(`core.grid.mix`) is 0, and - where it is 1. A plain sum would let a mean that moves hide what one
element does, and cancel a swap of two of them; a random pattern would differ between two runs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from everybit.core.grid import mix

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Blocks of a tensor.
NUM_BLOCKS: Final = 64
#: Values of a row of sums: the blocks, the L2 norm, the largest absolute value.
NUM_COLUMNS: Final = NUM_BLOCKS + 2


def block_length(num_elements: int) -> int:
    """Return how many elements a block has; the last ones may have fewer, or none.

    >>> block_length(640), block_length(641), block_length(3), block_length(0)
    (10, 11, 1, 0)
    """
    return -(-num_elements // NUM_BLOCKS)


@lru_cache(maxsize=64)
def block_signs(length: int) -> NDArray[np.float32]:
    """Return the signs of a block's elements, +1 or -1 as float32, shape `(length,)`.

    >>> block_signs(8).tolist()
    [-1.0, -1.0, -1.0, 1.0, 1.0, 1.0, -1.0, 1.0]
    """
    top = mix(np.arange(length, dtype=np.uint64)) >> np.uint64(63)
    signs = 1 - 2 * top.astype(np.float32)
    signs.flags.writeable = False
    return signs


def sums_of(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a tensor's row of sums by the definition: what `probe.block_sums` computes faster.

    Args:
        values: The elements in row-major order, flat.

    Returns:
        float64, shape `(66,)`: 64 signed block sums, the L2 norm, the largest absolute value.
    """
    length = block_length(len(values))
    signs = block_signs(length).astype(np.float64)
    row = np.zeros(NUM_COLUMNS)
    for block in range(NUM_BLOCKS):
        part = values[block * length : (block + 1) * length]
        row[block] = np.sum(part * signs[: len(part)])
    if len(values):
        row[NUM_BLOCKS] = np.sqrt(np.sum(values * values))
        row[NUM_BLOCKS + 1] = np.max(np.abs(values))
    return row

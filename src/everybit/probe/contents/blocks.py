"""Words of large tensors by a part of their bytes: blocks that lie evenly spaced in them.

A batch that another one was written over differs nearly everywhere, and so in its blocks; to read
them costs some microseconds, however large it is. A few bytes that changed between them are seen
only where all bytes are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
import xxhash

from everybit.probe.contents.words import header_of, is_plain, memory_of, size_of
from everybit.probe.memory import is_dense

if TYPE_CHECKING:
    from everybit.probe.contents.words import Leaves, Words

#: A leaf of more bytes is large: of one that is not, all bytes are read.
LARGE_LEAF_BYTES: Final = 1 << 16
#: Bytes of a block, and how many there are. Memory that nobody has read yet costs the process ten
#: microseconds a block, whatever is in it.
BLOCK_BYTES: Final = 2048
NUM_BLOCKS: Final = 32


def is_large(leaf: Any) -> bool:
    """Whether a leaf of a batch is a tensor that is read by blocks."""
    return isinstance(leaf, torch.Tensor) and size_of(leaf) > LARGE_LEAF_BYTES


def is_small(leaf: Any) -> bool:
    """Whether a leaf of a batch is a tensor all of whose bytes are read in any case."""
    return isinstance(leaf, torch.Tensor) and size_of(leaf) <= LARGE_LEAF_BYTES


def block_word(tensor: torch.Tensor) -> int:
    """Return the XXH3-64 of blocks of a CPU tensor, in the order of its memory.

    Args:
        tensor: More than `LARGE_LEAF_BYTES` bytes, of any dtype and shape.

    Returns:
        The word; 0 where its bytes are no single run of memory that can be read.
    """
    if not tensor.is_cpu or not is_plain(tensor) or not is_dense(tensor):
        return 0
    if not tensor.data_ptr():
        return 0
    memory = memory_of(tensor)
    size = len(memory)
    spacing = size // NUM_BLOCKS
    first = (spacing - BLOCK_BYTES) // 2  # The middle of a row says more than its edge.
    rows = np.frombuffer(memory, np.uint8, NUM_BLOCKS * spacing).reshape(NUM_BLOCKS, spacing)
    blocks = np.ascontiguousarray(rows[:, first : first + BLOCK_BYTES])
    seed = header_of(tensor.dtype, tensor.shape)
    return xxhash.xxh3_64_intdigest(blocks.data, seed=seed) or 1


def blocks_of(leaves: Leaves) -> Words:
    """Return `(path, word)` of the large tensors among leaves; 0 for one with none."""
    return [(path, block_word(leaf)) for path, leaf in leaves if is_large(leaf)]

"""Marks at half the cost, for tensors that are marked and tested at every step: gradients.

Of the grid sums only those of the columns are kept. They tell the block and the columns of the
damage; the row is tried out against the fingerprint. So damage of any length within one row of one
block (2,008 bytes of 255 KB) is placed and healed; of other damage the blocks are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xxhash

from everybit.core.grid import BLOCK_ROWS, ROW_BYTES, ROW_WORDS, GridSums, header_word
from everybit.core.grid_locate import BlockDamage, WordDamage
from everybit.guard.locate import healed_copy
from everybit.guard.marks import Marks
from everybit.probe.digest import memory_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from everybit.guard.tracked import Tracked

    Bytes = NDArray[np.uint8]


class LightMarks(Marks):
    """Marks of CPU tensors, whose fingerprints are the words that the record keeps.

    Args:
        tracked: The tensors. Each must have readable bytes.
        shadow: Keep copies of the large ones too.
    """

    def __init__(self, tracked: Sequence[Tracked], *, shadow: bool = False) -> None:
        super().__init__(tracked, shadow=shadow)
        self._seeds = [
            header_word(memory.dtype, tuple(memory.tensor.shape)) for memory in self.memories
        ]

    def take(self) -> None:
        """Mark every tensor as it is now."""
        for index in range(len(self.tracked)):
            self.take_one(index)

    def take_one(self, index: int) -> None:
        """Mark one tensor as it is now."""
        self.note_version(index)
        if self._sizes[index] > ROW_BYTES:
            self._take_large(index, rows=False)
        else:
            self._verbatim[index] = self._read_small(index)

    def memory_words(self) -> list[int]:
        """Return the recorded digest of every tensor as marked (XXH3-64, see `probe.digest`)."""
        words = []
        for index, item in enumerate(self.tracked):
            raw = self._verbatim[index]
            if not item.local.is_contiguous():
                words += memory_words([item.local])
            elif raw is None:
                words.append(self._hashes[index])
            else:
                words.append(xxhash.xxh3_64_intdigest(raw, seed=self._seeds[index]))
        return words

    def blocks(self, index: int, found: Bytes) -> list[BlockDamage]:
        """Return where `found` differs from the mark."""
        before = self.sums(index).cols
        deltas = GridSums.of(found.data).cols - before
        damaged = np.flatnonzero(deltas.any(axis=1)).tolist()
        words = self._words_of(index, found, damaged[0], deltas[damaged[0]]) if damaged else None
        if len(damaged) == 1 and words:
            return [BlockDamage(block=damaged[0], rows=(), words=words)]
        return [BlockDamage(block=block, rows=(), words=None) for block in damaged]

    def _words_of(
        self, index: int, found: Bytes, block: int, deltas: NDArray[np.uint64]
    ) -> tuple[WordDamage, ...] | None:
        """Try every row of a block: the right one gives bytes that have the fingerprint."""
        columns = np.flatnonzero(deltas).tolist()
        num_rows = -(-len(found) // ROW_BYTES)
        first = block * BLOCK_ROWS
        for row in range(first, min(first + BLOCK_ROWS, num_rows)):
            words = tuple(
                WordDamage(word=row * ROW_WORDS + column, delta=int(deltas[column]))
                for column in columns
            )
            right = healed_copy(found, words)
            if right is not None and self.agrees(index, right):
                return words
        return None

"""Locate and heal damaged words from the difference of grid sums.

Within one block (127 rows of 251 words) the sums before and after give a difference for each row
and each column. They determine the damaged words exactly where the damage lies in one row, or in
one column, or where every changed row's difference equals exactly one changed column's. That
covers any single word, any contiguous overwrite within a row and strided overwrites within a
column. Other patterns are left unsolved: their rows are known, their words are not.

A solution is a hypothesis until the healed bytes are confirmed by an independent fingerprint (XXH3
on the CPU): many words changed at once can mimic a simpler pattern.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from everybit.core.grid import BLOCK_ROWS, ROW_WORDS

if TYPE_CHECKING:
    from everybit.core.grid import GridSums, Words


@dataclass(frozen=True, slots=True, kw_only=True)
class WordDamage:
    """A damaged 64-bit word.

    Attributes:
        word: Flat index of the word in the padded canonical bytes.
        delta: Found minus right, modulo 2^64: subtract it to heal.
    """

    word: int
    delta: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockDamage:
    """What the sums say about one block.

    Attributes:
        block: Index of the block.
        rows: Global indices of the rows whose sums changed.
        words: The damaged words, or None where the sums do not determine them.
    """

    block: int
    rows: tuple[int, ...]
    words: tuple[WordDamage, ...] | None


def locate(before: GridSums, after: GridSums) -> list[BlockDamage]:
    """Return the damaged blocks, in order; empty where all sums agree."""
    if before.num_bytes != after.num_bytes:
        raise ValueError("sums of tensors of different size")
    row_delta = after.rows - before.rows
    col_delta = after.cols - before.cols
    blocks = set((np.flatnonzero(row_delta) // BLOCK_ROWS).tolist())
    blocks |= set(np.flatnonzero(col_delta.any(axis=1)).tolist())
    return [_solve(block, row_delta, col_delta[block]) for block in sorted(blocks)]


def _solve(block: int, row_delta: Words, col_delta: Words) -> BlockDamage:
    first_row = block * BLOCK_ROWS
    in_block = row_delta[first_row : first_row + BLOCK_ROWS]
    rows = [first_row + int(row) for row in np.flatnonzero(in_block)]
    cols = [int(col) for col in np.flatnonzero(col_delta)]
    by_row = {row: int(row_delta[row]) for row in rows}
    by_col = {col: int(col_delta[col]) for col in cols}
    pairs = _pairs(by_row, by_col)
    words = None
    if pairs is not None:
        words = tuple(
            WordDamage(word=row * ROW_WORDS + col, delta=delta) for row, col, delta in sorted(pairs)
        )
    return BlockDamage(block=block, rows=tuple(rows), words=words)


def _pairs(by_row: dict[int, int], by_col: dict[int, int]) -> list[tuple[int, int, int]] | None:
    if not by_row or not by_col:
        return None
    if (sum(by_row.values()) - sum(by_col.values())) % 2**64:
        return None
    if len(by_row) == 1:
        row = next(iter(by_row))
        return [(row, col, delta) for col, delta in by_col.items()]
    if len(by_col) == 1:
        col = next(iter(by_col))
        return [(row, col, delta) for row, delta in by_row.items()]
    col_of = {delta: col for col, delta in by_col.items()}
    if len(col_of) != len(by_col) or sorted(by_row.values()) != sorted(by_col.values()):
        return None
    return [(row, col_of[delta], delta) for row, delta in by_row.items()]

"""Grid sums of many CPU tensors in one vector, and their digests in a few operations.

For each tensor the vector holds its row sums, then its used column sums. Blocks (249 KiB) are
summed while they are in the cache; the same visit can feed an XXH3 hasher.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from everybit.core.grid import (
    BLOCK_ROWS,
    ROW_BYTES,
    ROW_WORDS,
    WORD_BYTES,
    GridSums,
    col_keys,
    header_word,
    mix,
    num_blocks_of,
    num_rows_of,
    num_used_cols,
    row_keys,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from everybit.core.grid import Words

Shape = tuple[str, tuple[int, ...], int]


@dataclass(frozen=True, slots=True, eq=False)
class SumLayout:
    """Where each tensor's sums lie in the vector, and the constants that mix them.

    Attributes:
        num_bytes: Size of each tensor.
        starts: Start of each tensor's row sums.
        mids: Start of each tensor's column sums.
        ends: End of each tensor's column sums.
        keys: Position key of every entry.
        headers: Header word of each tensor.
        used: Tensors that are not empty.
        used_starts: Where their row sums start.
        small: Tensors of at most one row, which are summed together.
        small_pads: Zero bytes that fill each of those up to whole words.
        small_offsets: Where each begins among the words of all of them.
        small_cols: Places of those words in the vector.
        small_rows: Places of their row sums.
    """

    num_bytes: tuple[int, ...]
    starts: tuple[int, ...]
    mids: tuple[int, ...]
    ends: tuple[int, ...]
    keys: Words
    headers: Words
    used: NDArray[np.intp]
    used_starts: NDArray[np.intp]
    small: tuple[int, ...]
    small_pads: tuple[bytes, ...]
    small_offsets: NDArray[np.intp]
    small_cols: NDArray[np.intp]
    small_rows: NDArray[np.intp]

    def new_vector(self) -> Words:
        """Return an empty vector for the sums."""
        return np.empty(len(self.keys), np.uint64)

    def digests(self, vector: Words) -> Words:
        """Return the grid digest word of each tensor (uint64, one a tensor)."""
        totals = np.zeros(len(self.num_bytes), np.uint64)
        if len(self.used):
            mixed = mix(vector ^ self.keys)
            totals[self.used] = np.add.reduceat(mixed, self.used_starts)
        return mix(totals ^ self.headers)

    def sums(self, vector: Words, index: int) -> GridSums:
        """Return one tensor's sums as a value."""
        num_bytes = self.num_bytes[index]
        rows = vector[self.starts[index] : self.mids[index]].copy()
        cols = np.zeros((num_blocks_of(num_bytes), ROW_WORDS), np.uint64)
        used = vector[self.mids[index] : self.ends[index]]
        cols.reshape(-1)[: len(used)] = used
        return GridSums(num_bytes, rows, cols)

    def fill_small(self, vector: Words, raws: Sequence[bytes]) -> None:
        """Sum all small tensors into their places.

        Args:
            vector: The vector.
            raws: The bytes of each tensor of `small`, in order.
        """
        if self.small:
            joined = b"".join(
                [raw + pad if pad else raw for raw, pad in zip(raws, self.small_pads, strict=True)]
            )
            words = np.frombuffer(joined, "<u8")
            vector[self.small_cols] = words
            vector[self.small_rows] = np.add.reduceat(words, self.small_offsets)

    def fill(
        self,
        vector: Words,
        index: int,
        data: NDArray[np.uint8],
        hasher: Any = None,
        *,
        rows: bool = True,
    ) -> None:
        """Sum one tensor's bytes into its place; feed every byte to `hasher.update` once.

        Args:
            vector: The vector.
            index: Which tensor.
            data: Its bytes.
            hasher: An XXH3 hasher.
            rows: Fill in the row sums; else they stay what they were.
        """
        start, mid, end = self.starts[index], self.mids[index], self.ends[index]
        num_full = len(data) // ROW_BYTES
        words = np.frombuffer(data.data, "<u8", num_full * ROW_WORDS).reshape(num_full, ROW_WORDS)
        reduce = np.add.reduce
        at = mid
        for first in range(0, num_full, BLOCK_ROWS):
            # The first visit reads memory, the others the cache; measured fastest in this order.
            piece = words[first : first + BLOCK_ROWS]
            if hasher is not None:
                hasher.update(piece)
            reduce(piece, axis=0, out=vector[at : at + ROW_WORDS])
            if rows:
                reduce(piece, axis=1, out=vector[start + first : start + first + len(piece)])
            at += ROW_WORDS
        rest = len(data) - num_full * ROW_BYTES
        if not rest:
            return
        raw = data[num_full * ROW_BYTES :].tobytes()
        tail = np.frombuffer(raw + bytes(-rest % WORD_BYTES), "<u8")
        vector[mid - 1] = reduce(tail)
        if num_full % BLOCK_ROWS:
            vector[at - ROW_WORDS : at - ROW_WORDS + len(tail)] += tail
        else:
            vector[at:end] = tail
        if hasher is not None:
            hasher.update(raw)


@lru_cache(maxsize=64)
def _layout(shapes: tuple[Shape, ...]) -> SumLayout:
    starts, mids, ends, keys = [], [], [], []
    at = 0
    most_rows = max((num_rows_of(n) for _, _, n in shapes), default=0)
    most_cols = max((num_used_cols(n) for _, _, n in shapes), default=0)
    all_rows, all_cols = row_keys(most_rows), col_keys(most_cols)
    for _, _, num_bytes in shapes:
        num_rows, num_cols = num_rows_of(num_bytes), num_used_cols(num_bytes)
        starts.append(at)
        mids.append(at + num_rows)
        at += num_rows + num_cols
        ends.append(at)
        keys += [all_rows[:num_rows], all_cols[:num_cols]]
    small = tuple(i for i, (_, _, n) in enumerate(shapes) if 0 < n <= ROW_BYTES)
    used = [i for i, (_, _, n) in enumerate(shapes) if n]
    widths = [ends[i] - mids[i] for i in small]
    return SumLayout(
        tuple(num_bytes for _, _, num_bytes in shapes),
        tuple(starts),
        tuple(mids),
        tuple(ends),
        np.concatenate(keys) if keys else np.empty(0, np.uint64),
        np.array([header_word(dtype, shape) for dtype, shape, _ in shapes], np.uint64),
        np.array(used, np.intp),
        np.array([starts[i] for i in used], np.intp),
        small,
        tuple(bytes(-shapes[i][2] % WORD_BYTES) for i in small),
        np.cumsum([0, *widths], dtype=np.intp)[:-1],
        np.concatenate([np.arange(mids[i], ends[i], dtype=np.intp) for i in small])
        if small
        else np.empty(0, np.intp),
        np.array([starts[i] for i in small], np.intp),
    )


def sum_layout(shapes: Sequence[Shape]) -> SumLayout:
    """Return the layout for tensors given as (dtype name, shape, size in bytes); cached."""
    return _layout(tuple(shapes))

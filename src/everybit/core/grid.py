"""The `grid` digest: row and column sums of the bytes as 64-bit words. For tensors in memory.

Definition, version 1. The canonical bytes, padded with zeros to whole rows, are read as
little-endian 64-bit words in rows of 251 (2,008 bytes); 127 rows make a block (255,016 bytes). The
sums are, modulo 2^64,

    rows[r]     the sum of row r
    cols[b, c]  the sum of column c within block b

Sums are linear: those of shards, taken at their global byte offsets, add up to those of the whole,
and the difference of two sums of one damaged word is the difference of the words, which locates
and heals it (`everybit.core.grid_locate`). They are integer sums, so they are the same on every
device and thread count. The digest mixes them with their positions, non-linearly, so that order
counts. With `mix` the finaliser of SplitMix64 (Steele, Lea and Flood 2014), all arithmetic modulo
2^64:

    total  = sum over r of mix(rows[r] ^ mix(2 r + 1))
           + sum over used (b, c) of mix(cols[b, c] ^ mix(2 (251 b + c) + 2))
    digest = mix(total ^ XXH3-64(tensor_header(dtype, shape)))

Both sizes are prime. The top bit of a word (the sign of a float64, of every other float32) adds
2^63 wherever it flips, so that an even number of flips in a row cancels; damage at a regular pitch,
or over the whole tensor, would do that in every row and column of a grid whose sides are powers of
two. Here its number in a row is odd often enough to be seen.

What it cannot see: changes whose differences cancel in every row and in every column. Such are the
top bits at the corners of a rectangle, and one permutation matrix of 64-bit integers turned into
another. `tree`, and any XXH3 of the bytes, sees these.

A column is used when its block holds a word in it: all 251, except in a block of less than one row.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import xxhash

from everybit.core.digest import Algorithm, Digest, tensor_header

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Buffer

    Words = NDArray[np.uint64]

WORD_BYTES: Final = 8
ROW_WORDS: Final = 251
ROW_BYTES: Final = ROW_WORDS * WORD_BYTES
BLOCK_ROWS: Final = 127
BLOCK_WORDS: Final = ROW_WORDS * BLOCK_ROWS
BLOCK_BYTES: Final = BLOCK_ROWS * ROW_BYTES

_MULTIPLIER_1: Final = 0xBF58476D1CE4E5B9
_MULTIPLIER_2: Final = 0x94D049BB133111EB
GOLDEN: Final = 0x9E3779B97F4A7C15


def mix(words: Words) -> Words:
    """Return SplitMix64's next output for each state in `words` (uint64, any shape)."""
    z = words + np.uint64(GOLDEN)
    z ^= z >> np.uint64(30)
    z *= np.uint64(_MULTIPLIER_1)
    z ^= z >> np.uint64(27)
    z *= np.uint64(_MULTIPLIER_2)
    z ^= z >> np.uint64(31)
    return z


def row_keys(num_rows: int) -> Words:
    """Return the position keys of rows 0 to `num_rows`."""
    return mix(np.arange(1, 2 * num_rows + 1, 2, dtype=np.uint64))


def col_keys(num_cols: int) -> Words:
    """Return the position keys of the flat columns 0 to `num_cols`."""
    return mix(np.arange(2, 2 * num_cols + 2, 2, dtype=np.uint64))


def num_rows_of(num_bytes: int) -> int:
    """Return how many rows hold `num_bytes`."""
    return -(-num_bytes // ROW_BYTES)


def num_blocks_of(num_bytes: int) -> int:
    """Return how many blocks hold `num_bytes`."""
    return -(-num_bytes // BLOCK_BYTES)


def num_used_cols(num_bytes: int) -> int:
    """Return how many flat columns enter the digest."""
    whole, rest = divmod(num_bytes, BLOCK_BYTES)
    return whole * ROW_WORDS + min(ROW_WORDS, -(-rest // WORD_BYTES))


def header_word(dtype: str, shape: tuple[int, ...]) -> int:
    """Return the word by which dtype and shape enter the digest."""
    return xxhash.xxh3_64_intdigest(tensor_header(dtype, shape))


@dataclass(frozen=True, slots=True, eq=False)
class GridSums:
    """Row and column sums, not yet mixed.

    Attributes:
        num_bytes: Length of the canonical bytes of the whole tensor.
        rows: uint64, shape `(num_rows,)`.
        cols: uint64, shape `(num_blocks, 251)`.
    """

    num_bytes: int
    rows: Words
    cols: Words

    @classmethod
    def empty(cls, num_bytes: int) -> GridSums:
        """Return the sums of `num_bytes` zeros."""
        return cls(
            num_bytes,
            np.zeros(num_rows_of(num_bytes), np.uint64),
            np.zeros((num_blocks_of(num_bytes), ROW_WORDS), np.uint64),
        )

    @classmethod
    def of(cls, data: Buffer, *, offset: int = 0, num_bytes: int | None = None) -> GridSums:
        """Return the sums of contiguous bytes.

        Args:
            data: A shard's canonical bytes (or all of them).
            offset: Where they start in the whole tensor, in bytes.
            num_bytes: Length of the whole tensor; `offset + len(data)` where not given.
        """
        view = memoryview(data).cast("B")
        total = offset + len(view) if num_bytes is None else num_bytes
        if offset + len(view) > total:
            raise ValueError(f"a shard ends at byte {offset + len(view)} of {total}")
        sums = cls.empty(total)
        if not len(view):
            return sums
        lead = offset % ROW_BYTES
        row = offset // ROW_BYTES
        if lead:
            first = min(ROW_BYTES - lead, len(view))
            _add_row(sums, row, bytes(lead) + bytes(view[:first]))
            view = view[first:]
            row += 1
        whole = len(view) // ROW_BYTES
        words = np.frombuffer(view, dtype="<u8", count=whole * ROW_WORDS).reshape(-1, ROW_WORDS)
        done = 0
        while done < whole:
            block = (row + done) // BLOCK_ROWS
            end = min(whole, (block + 1) * BLOCK_ROWS - row)
            piece = words[done:end]
            np.add.reduce(piece, axis=1, out=sums.rows[row + done : row + end])
            sums.cols[block] += np.add.reduce(piece, axis=0)
            done = end
        if len(view) % ROW_BYTES:
            _add_row(sums, row + whole, bytes(view[whole * ROW_BYTES :]))
        return sums

    def __add__(self, other: GridSums) -> GridSums:
        """Return the sums of two disjoint shards of the same tensor together."""
        if self.num_bytes != other.num_bytes:
            raise ValueError("sums of different tensors do not add up")
        return GridSums(self.num_bytes, self.rows + other.rows, self.cols + other.cols)

    def equals(self, other: GridSums) -> bool:
        """Whether all sums are the same."""
        return (
            self.num_bytes == other.num_bytes
            and bool(np.array_equal(self.rows, other.rows))
            and bool(np.array_equal(self.cols, other.cols))
        )

    def digest(self, dtype: str, shape: tuple[int, ...]) -> Digest:
        """Return the mixed digest of a tensor of this dtype and shape with these sums."""
        used = self.cols.reshape(-1)[: num_used_cols(self.num_bytes)]
        total = np.add.reduce(mix(self.rows ^ row_keys(len(self.rows))), keepdims=True)
        total += np.add.reduce(mix(used ^ col_keys(len(used))), keepdims=True)
        word = mix(total ^ np.uint64(header_word(dtype, shape)))
        return Digest(Algorithm.GRID, f"{int(word[0]):016x}")


def _add_row(sums: GridSums, row: int, data: bytes) -> None:
    words = np.frombuffer(data.ljust(ROW_BYTES, b"\0"), dtype="<u8")
    sums.rows[row] += np.add.reduce(words)
    sums.cols[row // BLOCK_ROWS] += words


def grid_digest(dtype: str, shape: tuple[int, ...], data: Any) -> Digest:
    """Return the `grid` digest of canonical bytes held in memory (a contiguous buffer)."""
    return GridSums.of(data).digest(dtype, shape)


if sys.byteorder != "little":  # pragma: no cover
    raise ImportError("everybit needs a little-endian machine")

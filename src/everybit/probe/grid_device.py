"""Grid sums and digests in plain tensor operations: the same bits everywhere, no host sync.

Integer arithmetic on `int64` wraps modulo 2^64, which is what the definition asks for. All
functions return tensors on the device of their input.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from everybit.core.grid import (
    BLOCK_ROWS,
    GOLDEN,
    ROW_BYTES,
    ROW_WORDS,
    WORD_BYTES,
    GridSums,
    header_word,
    num_used_cols,
)
from everybit.probe.memory import TensorMemory, row_major


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


_GOLDEN = _signed(GOLDEN)
_MULTIPLIER_1 = _signed(0xBF58476D1CE4E5B9)
_MULTIPLIER_2 = _signed(0x94D049BB133111EB)


def _shifted(z: torch.Tensor, bits: int) -> torch.Tensor:
    # `>>` on int64 copies the sign; the mask makes the shift a logical one.
    return (z >> bits) & ((1 << (64 - bits)) - 1)


def mix(words: torch.Tensor) -> torch.Tensor:
    """Return SplitMix64's next output for each state in `words` (int64 bit patterns)."""
    z = words + _GOLDEN
    z = (z ^ _shifted(z, 30)) * _MULTIPLIER_1
    z = (z ^ _shifted(z, 27)) * _MULTIPLIER_2
    return z ^ _shifted(z, 31)


def split_words(flat: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the bytes of a one-dimensional tensor as int64 words: whole rows, and the rest.

    Shapes `(num_whole_rows, 251)` and `(251,)`, the latter padded with zeros; it is empty where
    nothing is left over. Whole rows are not copied where the memory is aligned.
    """
    raw = flat.view(torch.uint8)
    if raw.storage_offset() % WORD_BYTES:
        raw = raw.clone()
    whole = raw.numel() // ROW_BYTES * ROW_BYTES
    rows = raw[:whole].view(torch.int64).view(-1, ROW_WORDS)
    left = raw[whole:]
    if not left.numel():
        return rows, rows.new_empty(0)
    return rows, torch.nn.functional.pad(left, (0, ROW_BYTES - left.numel())).view(torch.int64)


def row_sums(rows: torch.Tensor, rest: torch.Tensor) -> torch.Tensor:
    """Return the sum of each row, shape `(num_rows,)`."""
    sums = rows.sum(1)
    return torch.cat((sums, rest.sum(0, keepdim=True))) if rest.numel() else sums


def col_sums(rows: torch.Tensor, rest: torch.Tensor) -> torch.Tensor:
    """Return the column sums of each block, shape `(num_blocks, 251)`."""
    whole = rows.shape[0] // BLOCK_ROWS * BLOCK_ROWS
    blocks = rows[:whole].view(-1, BLOCK_ROWS, ROW_WORDS).sum(1)
    if whole == rows.shape[0] and not rest.numel():
        return blocks
    last = rows[whole:].sum(0, keepdim=True)
    return torch.cat((blocks, last + rest if rest.numel() else last))


@dataclass(frozen=True, slots=True, eq=False)
class DeviceSums:
    """Row and column sums on a device; the twin of `GridSums`."""

    num_bytes: int
    rows: torch.Tensor
    cols: torch.Tensor

    @classmethod
    def of(cls, memory: TensorMemory) -> DeviceSums:
        """Return the sums of a tensor's bytes in memory order."""
        words = split_words(memory.flat())
        return cls(memory.num_bytes, row_sums(*words), col_sums(*words))

    def digest(self, dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
        """Return the digest as a 0-d int64 tensor (the bit pattern of the word)."""
        device = self.rows.device
        positions = torch.arange(len(self.rows), device=device)
        used = self.cols.reshape(-1)[: num_used_cols(self.num_bytes)]
        places = torch.arange(len(used), device=device)
        total = mix(self.rows ^ mix(2 * positions + 1)).sum()
        total = total + mix(used ^ mix(2 * places + 2)).sum()
        return mix(total ^ _signed(header_word(dtype, shape)))

    def to_host(self) -> GridSums:
        """Copy to the host (a sync)."""
        return GridSums(
            self.num_bytes,
            self.rows.cpu().numpy().view("u8"),
            self.cols.cpu().numpy().view("u8"),
        )


def device_digest(tensor: torch.Tensor) -> torch.Tensor:
    """Return the recorded grid digest of a tensor as a 0-d int64 tensor on its device.

    Raises:
        ValueError: The tensor has no readable bytes (sparse, meta, quantised ...).
    """
    memory = TensorMemory.of(row_major(tensor.detach()))
    sums = DeviceSums.of(memory)
    return sums.digest(memory.dtype, tuple(tensor.shape))

"""Block sums of a tensor: 64 signed sums, the L2 norm and the largest value (`core.signs`).

Added up in float64, in the order of the elements on the CPU, so that the thread count changes
nothing; an accelerator without float64 adds in float32.
"""

from __future__ import annotations

from functools import lru_cache

import torch

from everybit.core.signs import NUM_BLOCKS, block_length, block_signs

#: Bytes at a time: they stay in the cache while they are widened and added up.
_PIECE_BYTES = 256 * 1024


def has_sums(tensor: torch.Tensor) -> bool:
    """Whether block sums are defined: real or complex numbers with a fraction."""
    return tensor.is_floating_point() or tensor.is_complex()


def block_sums(tensor: torch.Tensor) -> torch.Tensor:
    """Return the 66 sums of a tensor of any shape, on its device, float32 or float64.

    Of a complex tensor the real and imaginary parts are elements that follow each other. float64
    comes of float64; of narrower tensors the sums are rounded to float32 in the end.
    """
    values = tensor.detach()
    if values.is_complex():
        values = torch.view_as_real(values.resolve_conj())
    values = values.resolve_neg().reshape(-1)
    wide = torch.float64 if values.device.type in ("cpu", "cuda") else torch.float32
    result = torch.float64 if values.dtype is torch.float64 else torch.float32
    count = values.numel()
    sums = torch.zeros(NUM_BLOCKS + 2, dtype=wide, device=values.device)
    if not count:
        return sums.to(result)
    length = block_length(count)
    signs = _signs(length, wide, str(values.device))
    squares = torch.zeros((), dtype=wide, device=values.device)
    largest = torch.zeros((), dtype=wide, device=values.device)
    step = NUM_BLOCKS
    if values.device.type == "cpu":
        step = max(1, _PIECE_BYTES // (length * values.element_size()))
    for first in range(0, -(-count // length), step):
        part = values[first * length : (first + step) * length].to(wide)
        whole = part.numel() // length
        blocks = part[: whole * length].view(whole, length)
        sums[first : first + whole] = (blocks * signs).sum(1)
        rest = part[whole * length :]
        if rest.numel():
            sums[first + whole] = (rest * signs[: rest.numel()]).sum()
        squares += torch.dot(part, part)
        low, high = torch.aminmax(part)
        largest = torch.maximum(largest, torch.maximum(-low, high))
    sums[NUM_BLOCKS] = squares.sqrt()
    sums[NUM_BLOCKS + 1] = largest
    return sums.to(result)


@lru_cache(maxsize=64)
def _signs(length: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    return torch.tensor(block_signs(length)).to(device=device, dtype=dtype)

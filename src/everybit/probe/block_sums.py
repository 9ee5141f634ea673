"""Block sums of a tensor: 64 signed sums, the L2 norm and the largest value (`core.signs`).

Added up in float64 on the CPU and on CUDA, in float32 on other accelerators, which may have no
float64. They are rounded to float32 in the end, so that the order of the additions hardly shows.
"""

from __future__ import annotations

from functools import lru_cache

import torch

from everybit.core.signs import NUM_BLOCKS, NUM_COLUMNS, block_length, block_signs

#: Bytes at a time: they stay in the cache while they are widened and added up.
_PIECE_BYTES = 256 * 1024


def has_sums(tensor: torch.Tensor) -> bool:
    """Whether block sums are defined: real or complex numbers with a fraction."""
    return tensor.is_floating_point() or tensor.is_complex()


@torch.no_grad()
def block_sums(tensor: torch.Tensor) -> torch.Tensor:
    """Return the 66 sums of a tensor of any shape, on its device: float64 of float64, else float32.

    Of a complex tensor the real and imaginary parts are elements that follow each other.
    """
    values = tensor.detach()
    if values.is_complex():
        values = torch.view_as_real(values.resolve_conj())
    values = values.resolve_neg().reshape(-1)
    kind = values.device.type
    wide = torch.float64 if kind in ("cpu", "cuda") else torch.float32
    row = torch.zeros(NUM_COLUMNS, dtype=wide, device=values.device)
    if values.numel():
        if kind == "cpu":
            _add_on_host(row, values)
        else:
            _add_elsewhere(row, values.to(wide))
    return row.to(torch.float64 if values.dtype is torch.float64 else torch.float32)


def _add_on_host(row: torch.Tensor, values: torch.Tensor) -> None:
    length = block_length(values.numel())
    signs = _signs(length, torch.float64, "cpu")
    step = max(1, _PIECE_BYTES // (length * values.element_size()))
    squares = 0.0
    for first in range(0, -(-values.numel() // length), step):
        part = values[first * length : (first + step) * length].double()
        whole = part.numel() // length
        if whole:
            torch.mv(
                part[: whole * length].view(whole, length), signs, out=row[first : first + whole]
            )
        rest = part[whole * length :]
        if rest.numel():
            row[first + whole] = torch.dot(rest, signs[: rest.numel()])
        squares += float(torch.dot(part, part))
    low, high = torch.aminmax(values.float() if values.element_size() < 4 else values)
    row[NUM_BLOCKS] = squares**0.5
    row[NUM_BLOCKS + 1] = torch.maximum(-low, high)


def _add_elsewhere(row: torch.Tensor, values: torch.Tensor) -> None:
    """Do the same with few launches, and without a sync."""
    length = block_length(values.numel())
    signs = _signs(length, values.dtype, str(values.device))
    whole = values.numel() // length
    row[:whole] = (values[: whole * length].view(whole, length) * signs).sum(1)
    rest = values[whole * length :]
    if rest.numel():
        row[whole] = (rest * signs[: rest.numel()]).sum()
    low, high = torch.aminmax(values)
    row[NUM_BLOCKS] = (values * values).sum().sqrt()
    row[NUM_BLOCKS + 1] = torch.maximum(-low, high)


@lru_cache(maxsize=64)
def _signs(length: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    return torch.tensor(block_signs(length)).to(device=device, dtype=dtype)

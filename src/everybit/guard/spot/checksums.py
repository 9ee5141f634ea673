"""How far a matrix product is from what its checksums say, in units of its own rounding.

For a product C = A B and a vector r of signs, C r = A (B r) but for rounding: two cheap products
test an expensive one (Huang and Abraham, Algorithm-Based Fault Tolerance, 1984; the signs are those
of Freivalds, 1977). Signs rather than ones, so that errors of a whole row do not cancel.

The yardstick follows the rounding errors of both sides, taken for independent: with u the unit
roundoff of the outputs, v that of the accumulation, and norms over a row,

    u |c| + v (1 + sqrt(k)) |c| + v |a| |B r|

Clean products stay below 2.3 of it, from bf16 to fp64 (facts measured by the tests).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import torch

#: What a clean product never reaches, in yardsticks; what does is computed again.
LIMIT: Final = 4.0
#: Columns are summed in so many blocks where the outputs have few bits: a fault stands out more.
_HALF_BLOCKS: Final = 16
_HALVES: Final = (torch.bfloat16, torch.float16)
_SEED: Final = 0x5EED
CHECKED_DTYPES: Final = (torch.float32, torch.float64, *_HALVES)


def product_distance(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    *,
    added: torch.Tensor | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
) -> torch.Tensor:
    """Return how far each row of C = beta D + alpha A B is off, in yardsticks.

    Args:
        a: Shape `(..., n, k)`.
        b: Shape `(..., k, m)`.
        c: Shape `(..., n, m)`, of one of `CHECKED_DTYPES`.
        added: D, which broadcasts to the shape of C; None for none.
        alpha: Of the product.
        beta: Of what is added.

    Returns:
        Shape `(..., n)`, float32 or float64, on the device of C, no sync. NaN or infinite where
        the test itself overflows: take what is not below `LIMIT` for suspicious.
    """
    signs = _signs(c.shape[-1], c.dtype, c.device)
    wide = torch.float64 if c.dtype == torch.float64 else torch.float32
    found = (c @ signs).to(wide)
    folded = b @ signs
    expected = alpha * (a @ folded).to(wide)
    rows = torch.linalg.vector_norm(c, dim=-1, dtype=wide)
    sizes = rows
    if added is not None and beta != 0:
        full = added.expand(c.shape) if added.dim() < c.dim() else added
        if full.shape[-1] != c.shape[-1]:
            full = full.expand(c.shape)
        expected = expected + beta * (full @ signs).to(wide)
        norms = torch.linalg.vector_norm(full, dim=-1, dtype=wide)
        sizes = sizes + abs(beta) * norms
    unit = torch.finfo(c.dtype).eps / 2
    inner = torch.finfo(c.dtype if c.dtype in _HALVES else wide).eps / 2
    deep = torch.finfo(wide).eps / 2
    of_a = torch.linalg.vector_norm(a, dim=-1, dtype=wide)
    of_folded = torch.linalg.vector_norm(folded, dim=(-2, -1), dtype=wide)
    yardstick = (
        (unit + inner) * sizes
        + deep * math.sqrt(max(1, a.shape[-1])) * sizes
        + inner * abs(alpha) * of_a * of_folded.unsqueeze(-1)
    )
    off = (found - expected).abs().amax(dim=-1)
    # Zero by zero is a row of zeros that came out right. A yardstick that overflowed would let
    # everything pass.
    ratio = torch.where(torch.isfinite(yardstick), off / yardstick, torch.inf)
    return torch.where((off == 0) & torch.isfinite(yardstick), torch.zeros_like(off), ratio)


@lru_cache(maxsize=256)
def _signs(length: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return signs in blocks, shape `(length, blocks)`; no generator of the program's moves."""
    blocks = min(_HALF_BLOCKS, max(1, length)) if dtype in _HALVES else 1
    generator = torch.Generator().manual_seed(_SEED + length)
    drawn = torch.randint(0, 2, (length,), generator=generator) * 2 - 1
    signs = torch.zeros(length, blocks)
    signs[torch.arange(length), torch.arange(length) * blocks // max(1, length)] = drawn.float()
    return signs.to(device=device, dtype=dtype)

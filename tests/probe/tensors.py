"""Tensors of every dtype, layout and size that a digest must read right."""

from __future__ import annotations

import ctypes
import itertools
from typing import TYPE_CHECKING

import torch

from everybit.core.dtype import ITEMSIZE
from everybit.core.grid import BLOCK_BYTES, ROW_BYTES
from everybit.probe.memory import dtype_name

if TYPE_CHECKING:
    from collections.abc import Iterator

DTYPES = sorted(
    (
        dtype
        for dtype in vars(torch).values()
        if isinstance(dtype, torch.dtype)
        and dtype_name(dtype) in ITEMSIZE
        and not dtype_name(dtype).startswith(("q", "uint4", "uint2"))
    ),
    key=str,
)
DTYPES = list(dict.fromkeys(DTYPES))

#: Around a word, a row and a block.
SIZES = [
    0, 1, 3, 7, 8, 9, 64,
    ROW_BYTES - 8, ROW_BYTES - 1, ROW_BYTES, ROW_BYTES + 1, 3 * ROW_BYTES + 5,
    BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 2 * BLOCK_BYTES + ROW_BYTES + 17,
]  # fmt: skip


def random_bytes(size: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (size,), dtype=torch.uint8, generator=generator)


def filled(dtype: torch.dtype, shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    """A tensor of random bits, NaNs, infinities and all."""
    count = 1
    for size in shape:
        count *= size
    raw = random_bytes(count * torch.empty(0, dtype=dtype).element_size(), seed)
    if dtype is torch.bool:
        raw &= 1
    return raw.view(dtype).reshape(shape)


def layouts(dtype: torch.dtype) -> Iterator[tuple[str, torch.Tensor]]:
    """The same kind of numbers in every arrangement of memory."""
    yield "empty", filled(dtype, (0,))
    yield "empty 2-d", filled(dtype, (3, 0, 2))
    yield "0-d", filled(dtype, (1,)).reshape(())
    yield "one", filled(dtype, (1,))
    yield "vector", filled(dtype, (1003,))
    yield "matrix", filled(dtype, (37, 61))
    base = filled(dtype, (5, 4, 6, 7), seed=1)
    yield "transposed", base[0, 0].t()
    yield "permuted", base.permute(2, 0, 3, 1)
    yield "channels_last", base.contiguous(memory_format=torch.channels_last)
    yield "sliced", base[:, 1:3, ::2, 3:]
    yield "column", base[:, :, :, 2]
    yield "odd offset", filled(dtype, (101,), seed=2)[3:]
    yield "odd offset, transposed", filled(dtype, (101,), seed=2)[5:101].view(12, 8).t()
    yield "expanded", filled(dtype, (6, 1), seed=3).expand(6, 5)
    yield "overlapping", filled(dtype, (30,), seed=4).as_strided((5, 4), (2, 1))
    yield "size 1 dims", filled(dtype, (1, 9, 1, 4), seed=5).transpose(1, 3)
    yield "reversed strides", filled(dtype, (3, 4, 5), seed=6).permute(2, 1, 0)
    width = torch.empty(0, dtype=dtype).element_size()
    yield "several rows", filled(dtype, (3 * ROW_BYTES // width + 11,), seed=7)
    yield "rows, transposed", filled(dtype, (4 * ROW_BYTES // 61 // width + 1, 61), seed=8).t()


def canonical_bytes(tensor: torch.Tensor) -> bytes:
    """Row-major bytes, element by element: slow and sure."""
    width = tensor.element_size()
    storage = tensor.untyped_storage()
    whole = ctypes.string_at(storage.data_ptr(), storage.nbytes())
    return b"".join(whole[place * width : (place + 1) * width] for place in addresses(tensor))


def addresses(tensor: torch.Tensor) -> list[int]:
    """The storage index of each element, in row-major order."""
    places = itertools.product(*map(range, tensor.shape))
    return [
        int(tensor.storage_offset()) + sum(i * s for i, s in zip(p, tensor.stride(), strict=True))
        for p in places
    ]

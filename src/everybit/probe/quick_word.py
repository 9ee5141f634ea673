"""The digest word of a plain CPU tensor, read where it lies: the quickest way there is."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Final

import torch
import xxhash

from everybit.core.grid import header_word
from everybit.probe.memory import dtype_name

_PLAIN: Final = (torch.Tensor, torch.nn.Parameter)
#: Types whose bytes are all there is to them; others take the longer way.
_DTYPES: Final = frozenset(
    {
        torch.float32,
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
    }
)


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor is one on the CPU whose bytes are all there is to it."""
    return (
        tensor.device.type == "cpu"
        and type(tensor) in _PLAIN
        and tensor.layout is torch.strided
        and tensor.dtype in _DTYPES
        and not tensor.is_nested
    )


def word_in_place(tensor: torch.Tensor) -> int | None:
    """Return the XXH3-64 of a plain, dense tensor's memory, seeded with its header word.

    The elements are taken in the order in which they lie. None where it has no memory now.
    """
    pointer, num_bytes = tensor.data_ptr(), tensor.numel() * tensor.element_size()
    if not pointer and num_bytes:
        return None
    held = (ctypes.c_char * num_bytes).from_address(pointer)
    return xxhash.xxh3_64_intdigest(held, seed=_seed(tensor.dtype, tuple(tensor.shape)))


@lru_cache(maxsize=4096)
def _seed(dtype: torch.dtype, shape: tuple[int, ...]) -> int:
    return header_word(dtype_name(dtype), shape)

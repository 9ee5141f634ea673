"""Canonical bytes of a live tensor, in bounded pieces, whatever its strides and device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from everybit.core.tree import TreeHasher
from everybit.probe.memory import TensorMemory, dtype_name, row_major, why_unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.core.digest import Digest

#: What is copied from a device, or gathered from strides, at once. A whole number of leaves.
PIECE_BYTES: Final = 16 * 1024 * 1024


def tensor_pieces(tensor: torch.Tensor) -> Iterator[Any]:
    """Yield the canonical bytes in order, as short-lived buffers of at most `PIECE_BYTES`.

    Memory that holds them already is not copied.

    Raises:
        ValueError: The tensor has no readable bytes; says why.
    """
    why = why_unreadable(tensor)
    if why:
        raise ValueError(why)
    with torch.no_grad():
        for piece in _pieces(tensor.detach()):
            # Held by this name for as long as its bytes are looked at.
            memory = TensorMemory.of(row_major(piece).cpu())
            yield memory.bytes_().data


def _pieces(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    size = tensor.element_size()
    if not tensor.numel():
        return
    if tensor.numel() * size <= PIECE_BYTES:
        yield tensor
    elif tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg()):
        flat = tensor.view(-1)
        step = PIECE_BYTES // size
        for start in range(0, flat.numel(), step):
            yield flat[start : start + step]
    else:
        # In row-major order the rows follow each other: several at once, or a part of one.
        row_bytes = tensor.numel() // tensor.shape[0] * size
        rows = max(1, PIECE_BYTES // row_bytes)
        for start in range(0, tensor.shape[0], rows):
            part = tensor[start : start + rows]
            if row_bytes > PIECE_BYTES:
                yield from _pieces(part[0])
            else:
                yield part


def tensor_tree(tensor: torch.Tensor) -> Digest:
    """Return the `tree` digest of a plain tensor: that of the same tensor in a file.

    Raises:
        ValueError: The tensor has no readable bytes; says why.
    """
    hasher = TreeHasher()
    for piece in tensor_pieces(tensor):
        hasher.update(piece)
    return hasher.digest(dtype_name(tensor.dtype), tuple(tensor.shape))

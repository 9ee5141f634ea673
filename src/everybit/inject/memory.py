"""Raw access to a tensor's memory, unseen by PyTorch's version counters.

On the CPU bytes are copied through the address, as a stray write of native code would do it. On
other devices they go through a byte tensor of its own over the same storage, whose version
counter is not the tensor's.
"""

from __future__ import annotations

import ctypes
import sys
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from everybit.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

MAPS = Path("/proc/self/maps")


def read_elements(tensor: Tensor, elements: Sequence[int]) -> list[bytes]:
    """Return the little-endian bytes of each element.

    Args:
        tensor: Any dtype, strides and device.
        elements: Flat row-major indices, each in `range(tensor.numel())`.

    Raises:
        UsageError: The tensor has no plain memory of its own (meta, sparse, quantised, sharded, a
            lazy view).
    """
    check_plain(tensor)
    size = tensor.element_size()
    offsets = _byte_offsets(tensor, elements)
    if tensor.device.type == "cpu":
        base = tensor.untyped_storage().data_ptr()
        return [ctypes.string_at(base + offset, size) for offset in offsets]
    return read_storage(tensor, offsets)


def write_elements(tensor: Tensor, elements: Sequence[int], values: Sequence[bytes]) -> None:
    """Overwrite elements; strides, views and every counter of the tensor stay as they are.

    Args:
        tensor: As for `read_elements`.
        elements: Flat row-major indices.
        values: The new little-endian bytes of each.

    Raises:
        UsageError: No plain memory, or the memory is mapped read-only.
    """
    check_plain(tensor)
    if not elements:
        return
    size = tensor.element_size()
    offsets = _byte_offsets(tensor, elements)
    if tensor.device.type == "cpu":
        base = tensor.untyped_storage().data_ptr()
        _check_writable(base + min(offsets), base + max(offsets) + size)
        for offset, value in zip(offsets, values, strict=True):
            ctypes.memmove(base + offset, value, size)
        return
    write_storage(tensor, offsets, values)


def read_storage(tensor: Tensor, offsets: Sequence[int]) -> list[bytes]:
    """Return the elements at byte offsets of the tensor's storage, on any device."""
    size = tensor.element_size()
    with torch.no_grad():
        storage = _storage_bytes(tensor)
        raw = storage[_byte_index(offsets, size, storage)].cpu().numpy().tobytes()
    return [raw[start : start + size] for start in range(0, len(raw), size)]


def write_storage(tensor: Tensor, offsets: Sequence[int], values: Sequence[bytes]) -> None:
    """Overwrite the elements at byte offsets of the tensor's storage, on any device."""
    size = tensor.element_size()
    with torch.no_grad():
        storage = _storage_bytes(tensor)
        new = torch.frombuffer(bytearray(b"".join(values)), dtype=torch.uint8)
        storage[_byte_index(offsets, size, storage)] = new.to(storage.device)


def check_plain(tensor: Tensor) -> None:
    """Raise `UsageError` where the tensor's elements are not plain bytes in its own storage."""
    reason = ""
    if tensor.layout is not torch.strided:
        reason = f"its layout is {tensor.layout}"
    elif tensor.is_quantized:
        reason = "it is quantised"
    elif tensor.device.type == "meta":
        reason = "it is on the meta device and has no memory"
    elif type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer) and (
        type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
    ):
        reason = f"a {type(tensor).__name__} wraps other tensors"
    elif tensor.is_conj() or tensor.is_neg():
        reason = "it is a lazy conjugate or negative view"
    if reason:
        raise UsageError(
            f"cannot plant a fault in a tensor: {reason}",
            todo="choose a plain tensor, or the one it is made from",
        )


def aliases_itself(tensor: Tensor) -> bool:
    """Whether one byte may stand for several elements (expanded or overlapping strides)."""
    dims = sorted(
        (stride, size)
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
        if size > 1
    )
    reach = 1
    for stride, size in dims:
        if stride < reach:
            return True
        reach = stride * (size - 1) + reach
    return False


def memory_order(tensor: Tensor, position: int) -> int:
    """Return the flat row-major index of the element that is `position`-th in memory order."""
    shape, stride = tuple(tensor.shape), tensor.stride()
    by_stride = sorted(range(len(shape)), key=lambda dim: -stride[dim])
    coordinate = dict(
        zip(by_stride, _unravel(position, [shape[dim] for dim in by_stride]), strict=True)
    )
    index = 0
    for dim, size in enumerate(shape):
        index = index * size + coordinate[dim]
    return index


def _unravel(index: int, shape: Sequence[int]) -> list[int]:
    coordinates = []
    for size in reversed(shape):
        index, rest = divmod(index, size)
        coordinates.append(rest)
    return coordinates[::-1]


def _byte_offsets(tensor: Tensor, elements: Sequence[int]) -> list[int]:
    shape, stride = tuple(tensor.shape), tensor.stride()
    size, first = tensor.element_size(), int(tensor.storage_offset())
    count = prod(shape)
    for element in elements:
        if not 0 <= element < count:
            raise UsageError(f"element {element} of a tensor of {count}", todo="name one it has")
    if tensor.is_contiguous():
        return [(first + element) * size for element in elements]
    return [
        size
        * (first + sum(i * int(s) for i, s in zip(_unravel(element, shape), stride, strict=True)))
        for element in elements
    ]


def _storage_bytes(tensor: Tensor) -> Tensor:
    # `set_` gives a tensor with a version counter of its own: the owner's stays where it is.
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


def _byte_index(offsets: Sequence[int], size: int, storage: Tensor) -> Tensor:
    starts = torch.tensor(offsets, dtype=torch.int64)
    index = starts[:, None] + torch.arange(size)
    return index.reshape(-1).to(storage.device)


def _check_writable(start: int, end: int) -> None:
    # A write to a read-only mapping (a memory-mapped file) would kill the process.
    if not sys.platform.startswith("linux"):
        return
    try:
        lines = MAPS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        span, mode = line.split(maxsplit=2)[:2]
        low, high = (int(edge, 16) for edge in span.split("-"))
        if low < end and start < high and "w" not in mode:
            raise UsageError(
                "cannot plant a fault: the tensor's memory is mapped read-only",
                todo="clone the tensor first",
            )

"""The memory under a tensor: its bytes where they lie, and which element each byte belongs to."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.autograd.grad_mode import _unsafe_preserve_version_counter
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from everybit.core.dtype import ITEMSIZE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]


_NAMES: dict[torch.dtype, str] = {}


def dtype_name(dtype: torch.dtype) -> str:
    """Return the canonical name of a torch dtype.

    >>> dtype_name(torch.bfloat16)
    'bfloat16'
    """
    name = _NAMES.get(dtype)
    if name is None:
        name = _NAMES[dtype] = str(dtype).removeprefix("torch.")
    return name


def why_unreadable(tensor: torch.Tensor) -> str:
    """Return why the bytes of `tensor` cannot be read in place, or "" where they can."""
    kind = type(tensor)
    if kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return f"a {kind.__name__} keeps its bytes elsewhere"
    if is_uninitialised(tensor):
        return "it is not initialised yet"
    if tensor.is_nested:
        return "a nested tensor is several in one"
    if tensor.layout is not torch.strided:
        return f"layout {str(tensor.layout).removeprefix('torch.')} has no single run of bytes"
    if tensor.device.type == "meta":
        return "a meta tensor has no bytes"
    if tensor.is_quantized:
        return "quantised tensors carry parameters beside their bytes"
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return "inside a torch.func transform"
    if dtype_name(tensor.dtype) not in ITEMSIZE:
        return f"dtype {dtype_name(tensor.dtype)} is not known"
    if not tensor.data_ptr() and tensor.numel():
        return "it has no memory now (released, or not allocated)"
    return ""


def is_uninitialised(tensor: torch.Tensor) -> bool:
    """Whether a lazy module has yet to give the tensor its shape and values."""
    return isinstance(tensor, (UninitializedParameter, UninitializedBuffer))


def is_shared(tensor: torch.Tensor) -> bool:
    """Whether a CPU tensor's memory is shared with other processes."""
    return tensor.device.type == "cpu" and bool(tensor.untyped_storage().is_shared())


def storage_address(tensor: torch.Tensor, *, absent: int = 0) -> int:
    """Return the address of a tensor's storage, `absent` where it has no memory of its own."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return absent


def row_major(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor, or a copy whose memory holds its values in row-major order."""
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    if tensor.is_contiguous():
        return tensor
    if tensor.element_size() == 1:  # Packed types have no copy of their own.
        return tensor.view(torch.uint8).contiguous().view(tensor.dtype)
    return tensor.contiguous()


def version(tensor: torch.Tensor) -> int:
    """Return the version counter; 0 for inference tensors, which have none."""
    return 0 if tensor.is_inference() else tensor._version


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements fill one run of memory without gaps or overlaps, in any order."""
    if tensor.is_contiguous():
        return True
    expected = 1
    pairs = [
        (stride, size)
        for stride, size in zip(tensor.stride(), tensor.shape, strict=True)
        if size != 1
    ]
    for stride, size in sorted(pairs):
        if stride != expected:
            return False
        expected *= size
    return True


@dataclass(frozen=True, slots=True, eq=False)
class TensorMemory:
    """The bytes of one tensor in memory order (row-major copies where it is not dense).

    Memory order is the order of addresses: for a contiguous tensor the canonical, row-major
    order; for `channels_last` another. `element` maps back to row-major.

    Attributes:
        tensor: The tensor, detached; shares its memory.
        dense: Whether `bytes_` is the memory itself.
    """

    tensor: torch.Tensor
    dense: bool

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TensorMemory:
        """Look at a tensor; raises `ValueError` with the reason where it has no readable bytes."""
        reason = why_unreadable(tensor)
        if reason:
            raise ValueError(reason)
        return cls(tensor, is_dense(tensor))

    @property
    def num_bytes(self) -> int:
        """Length of the canonical bytes."""
        return self.tensor.numel() * self.tensor.element_size()

    @property
    def dtype(self) -> str:
        """Canonical dtype name."""
        return dtype_name(self.tensor.dtype)

    def flat(self) -> torch.Tensor:
        """Return a one-dimensional tensor of the elements in memory order."""
        with torch.no_grad():
            tensor = self.tensor.detach()
            if not self.dense:
                return row_major(tensor).reshape(-1)
            return tensor.as_strided((tensor.numel(),), (1,))

    def bytes_(self) -> Bytes:
        """Return the bytes in memory order: the memory itself, or a copy."""
        if self.dense and self.tensor.device.type == "cpu":
            return _array_at(self.tensor.data_ptr(), self.num_bytes)
        flat = self.flat().cpu()
        array = _array_at(flat.data_ptr(), self.num_bytes)
        return array.copy()

    def copy(self) -> bytes:
        """Return a copy of the bytes in memory order."""
        if self.dense and self.tensor.device.type == "cpu":
            return ctypes.string_at(self.tensor.data_ptr(), self.num_bytes)
        return self.bytes_().tobytes()

    def element(self, index: int) -> int:
        """Return the flat row-major index of the element at `index` in memory order."""
        return int(self.elements(np.array([index]))[0])

    def elements(self, indices: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the flat row-major index of each element given by its index in memory order."""
        tensor = self.tensor
        if tensor.is_contiguous() or not self.dense:
            return indices
        strides = [int(stride) for stride in tensor.stride()]
        order = sorted(range(tensor.dim()), key=lambda d: (-strides[d], -tensor.shape[d]))
        sizes = [int(tensor.shape[d]) for d in order]
        places = dict(zip(order, np.unravel_index(indices, sizes), strict=True))
        flat = np.zeros_like(indices)
        for d, size in enumerate(tensor.shape):
            flat = flat * int(size) + places[d]
        return flat

    def write(self, offset: int, data: bytes) -> None:
        """Put bytes back at an offset in memory order, as a repair: no version counter moves."""
        size = self.tensor.element_size()
        if self.tensor.device.type == "cpu" and self.dense:
            ctypes.memmove(self.tensor.data_ptr() + offset, data, len(data))
        elif self.tensor.device.type == "cpu":
            for start in range(0, len(data), size):
                at = self._storage_element((offset + start) // size) * size
                base = self.tensor.untyped_storage().data_ptr()
                ctypes.memmove(base + at, data[start : start + size], size)
        else:
            self._write_device(offset, data)

    def _write_device(self, offset: int, data: bytes) -> None:
        if not self.dense:
            raise ValueError("cannot write into a strided view with gaps on an accelerator")
        piece = torch.frombuffer(bytearray(data), dtype=torch.uint8).to(self.tensor.device)
        with torch.no_grad(), _unsafe_preserve_version_counter(self.tensor):
            raw = self.flat().view(torch.uint8)
            raw[offset : offset + len(data)] = piece

    def _storage_element(self, flat: int) -> int:
        at = int(self.tensor.storage_offset())
        for size, stride in zip(
            reversed(self.tensor.shape), reversed(self.tensor.stride()), strict=True
        ):
            flat, place = divmod(flat, size)
            at += place * stride
        return at


def _array_at(pointer: int, num_bytes: int) -> Bytes:
    if not num_bytes:
        return np.empty(0, np.uint8)
    buffer: Any = (ctypes.c_uint8 * num_bytes).from_address(pointer)
    return np.frombuffer(buffer, dtype=np.uint8)

"""Copies of tensors that know their own digest: taken, tested, and written back in place."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from everybit.core.tree import TreeHasher, tree_digest
from everybit.probe.grid_device import device_digest
from everybit.probe.memory import (
    TensorMemory,
    dtype_name,
    is_dense,
    row_major,
    why_unreadable,
)
from everybit.probe.state.room import Spilled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from everybit.probe.state.room import Room

    Bytes = NDArray[np.uint8]


class Copy(Protocol):
    """The bytes of a tensor as they were.

    Attributes:
        dtype: Canonical dtype name.
        shape: Shape.
        num_bytes: Bytes it stands for.
    """

    dtype: str
    shape: tuple[int, ...]
    num_bytes: int

    @property
    def digest(self) -> str:
        """The `tree` digest of the canonical bytes, hexadecimal."""

    def bytes_(self) -> Bytes:
        """Return the canonical bytes, on the host."""

    def is_whole(self) -> bool:
        """Whether the copy still is what was copied."""

    def write(self, tensor: torch.Tensor) -> None:
        """Write it into a tensor of this dtype and shape, whatever its strides."""


class HostCopy:
    """Canonical bytes in host memory, or spilled to a file."""

    __slots__ = ("_held", "digest", "dtype", "num_bytes", "shape")

    def __init__(
        self, dtype: str, shape: tuple[int, ...], digest: str, held: Bytes | Spilled, size: int
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.digest = digest
        self.num_bytes = size
        self._held = held

    def bytes_(self) -> Bytes:
        """Return the canonical bytes."""
        return self._held.read() if isinstance(self._held, Spilled) else self._held

    def is_whole(self) -> bool:
        """Whether the copy still is what was copied."""
        return tree_digest(self.dtype, self.shape, self.bytes_().data).hex == self.digest

    def write(self, tensor: torch.Tensor) -> None:
        """Write it into a tensor; its version counter moves, as for any write."""
        data = self.bytes_()
        if tensor.device.type == "cpu" and tensor.is_contiguous() and not _is_lazy(tensor):
            ctypes.memmove(tensor.data_ptr(), data.ctypes.data, len(data))
            _count(tensor)
        elif data.size:
            raw = torch.from_numpy(data).clone()
            _write(tensor, raw.view(tensor.dtype).view(tensor.shape))


class DeviceCopy:
    """A copy on the accelerator that the tensor is on; tested by its `grid` digest there."""

    __slots__ = ("_clone", "_digest", "dtype", "num_bytes", "shape", "word")

    def __init__(self, clone: torch.Tensor, word: int) -> None:
        self.dtype = dtype_name(clone.dtype)
        self.shape = tuple(clone.shape)
        self.num_bytes = clone.numel() * clone.element_size()
        self.word = word
        self._clone = clone
        self._digest = ""

    @property
    def digest(self) -> str:
        """The `tree` digest of the canonical bytes; a transfer to the host, once."""
        if not self._digest:
            self._digest = tree_digest(self.dtype, self.shape, self.bytes_().data).hex
        return self._digest

    def bytes_(self) -> Bytes:
        """Return the canonical bytes, on the host."""
        return TensorMemory.of(self._clone).bytes_()

    def is_whole(self) -> bool:
        """Whether the copy still is what was copied."""
        return int(device_digest(self._clone).item()) == self.word

    def write(self, tensor: torch.Tensor) -> None:
        """Write it into a tensor."""
        _write(tensor, self._clone)


class OpaqueCopy:
    """A clone of a tensor that has no single run of bytes: quantised, sparse."""

    __slots__ = ("_clone", "digest", "dtype", "num_bytes", "shape")

    def __init__(self, clone: torch.Tensor) -> None:
        self.dtype = dtype_name(clone.dtype)
        self.shape = tuple(clone.shape)
        self._clone = clone
        self.num_bytes = sum(part.numel() * part.element_size() for part in _parts(clone))
        self.digest = self._now()

    def _now(self) -> str:
        hasher = TreeHasher()
        hasher.update(_parameters_of(self._clone).encode())
        for part in _parts(self._clone):
            hasher.update(TensorMemory.of(row_major(part)).bytes_().data)
        return hasher.digest(self.dtype, self.shape).hex

    def bytes_(self) -> Bytes:
        """Return the bytes of its parts, one after another."""
        found = [TensorMemory.of(row_major(part)).bytes_() for part in _parts(self._clone)]
        return np.concatenate(found) if found else np.empty(0, np.uint8)

    def is_whole(self) -> bool:
        """Whether the copy still is what was copied."""
        return self._now() == self.digest

    def write(self, tensor: torch.Tensor) -> None:
        """Write it into a tensor."""
        with torch.inference_mode(tensor.is_inference()), torch.no_grad():
            tensor.copy_(self._clone)  # Of a sparse one, `detach` would take the new values alone.


def copy_tensors(
    tensors: Sequence[torch.Tensor], known: Sequence[Copy | None], room: Room
) -> list[Copy]:
    """Copy tensors, but for those whose bytes are those of a known copy: that is taken then.

    Args:
        tensors: Plain tensors, as `pieces_of` gives them.
        known: An earlier copy of each, or None.
        room: Where copies are held.

    Raises:
        PathError: Copies do not fit into memory, nor can they be written to a file.
    """
    found: list[Copy | None] = [None] * len(tensors)
    asked: list[int] = []
    for place, tensor in enumerate(tensors):
        if why_unreadable(tensor):
            opaque = OpaqueCopy(tensor.detach().clone())
            before = known[place]
            same = isinstance(before, OpaqueCopy) and before.digest == opaque.digest
            found[place] = before if same else opaque
        elif tensor.device.type == "cpu":
            found[place] = _on_host(tensor, known[place], room)
        else:
            asked.append(place)
    if asked:
        _on_devices(tensors, known, room, asked, found)
    return [copy for copy in found if copy is not None]


def _on_host(tensor: torch.Tensor, known: Copy | None, room: Room) -> Copy:
    memory = TensorMemory.of(row_major(tensor.detach()))
    data = memory.bytes_()
    shape = tuple(tensor.shape)
    digest = tree_digest(memory.dtype, shape, data.data).hex
    if isinstance(known, HostCopy) and known.digest == digest:
        return known
    held = data.copy() if room.take(len(data)) else room.spill(data)
    return HostCopy(memory.dtype, shape, digest, held, len(data))


def _on_devices(
    tensors: Sequence[torch.Tensor],
    known: Sequence[Copy | None],
    room: Room,
    asked: Sequence[int],
    found: list[Copy | None],
) -> None:
    """Copy what is on accelerators: one launch a tensor, and one sync a device for all."""
    by_device: dict[torch.device, list[int]] = {}
    for place in asked:
        by_device.setdefault(tensors[place].device, []).append(place)
    for places in by_device.values():
        words = torch.stack([device_digest(tensors[place]) for place in places]).tolist()
        for place, word in zip(places, words, strict=True):
            before, tensor = known[place], tensors[place].detach()
            fits = isinstance(before, DeviceCopy) and before.shape == tuple(tensor.shape)
            if fits and isinstance(before, DeviceCopy) and before.word == word:
                found[place] = before
            elif room.take(tensor.numel() * tensor.element_size()):
                found[place] = DeviceCopy(row_major(tensor).clone(), word)
            else:
                data = TensorMemory.of(row_major(tensor)).bytes_()
                name, shape = dtype_name(tensor.dtype), tuple(tensor.shape)
                digest = tree_digest(name, shape, data.data).hex
                found[place] = HostCopy(name, shape, digest, room.spill(data), len(data))


def pieces_of(tensor: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
    """Return the tensors that hold a tensor's bytes in this process, with a suffix for each.

    Of a DTensor that is the local shard, of another wrapper its inner tensors, else the tensor
    itself; nothing where there are no bytes yet, or none of its own (meta, lazy).
    """
    local = getattr(tensor, "_local_tensor", None)
    if isinstance(local, torch.Tensor):
        return pieces_of(local)
    if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        flatten = getattr(tensor, "__tensor_flatten__", None)
        if flatten is None:
            return []
        names, _ = flatten()
        return [
            (f".{name}{suffix}", piece)
            for name in names
            for suffix, piece in pieces_of(getattr(tensor, name))
        ]
    reason = why_unreadable(tensor)
    return [("", tensor)] if not reason or _has_parts(tensor) else []


def _has_parts(tensor: torch.Tensor) -> bool:
    try:
        return tensor.device.type != "meta" and bool(_parts(tensor))
    except (RuntimeError, NotImplementedError):
        return False


def _parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    if tensor.is_quantized:
        return [tensor.int_repr()]
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return []


def _parameters_of(tensor: torch.Tensor) -> str:
    """Return what stands beside the bytes of a quantised tensor, as text."""
    if not tensor.is_quantized:
        return ""
    if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return f"{tensor.q_scale()!r} {tensor.q_zero_point()!r}"
    scales, points = tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()
    return f"{scales.tolist()!r} {points.tolist()!r} {tensor.q_per_channel_axis()}"


def _is_lazy(tensor: torch.Tensor) -> bool:
    return tensor.is_conj() or tensor.is_neg()


def _count(tensor: torch.Tensor) -> None:
    if not tensor.is_inference():
        torch.autograd.graph.increment_version(tensor)


def _write(tensor: torch.Tensor, values: torch.Tensor) -> None:
    """Copy values into a tensor of any strides and device."""
    target = tensor.detach()
    if tensor.element_size() == 1:  # Packed types have no copy of their own.
        target, values = target.view(torch.uint8), values.view(torch.uint8)
    for dim, (stride, size) in enumerate(zip(target.stride(), target.shape, strict=True)):
        if not stride and size > 1:  # Expanded: one element stands for all.
            target, values = target.narrow(dim, 0, 1), values.narrow(dim, 0, 1)
    with torch.inference_mode(tensor.is_inference()), torch.no_grad():
        if is_dense(target) or tensor.device.type != "cpu":
            target.copy_(values)
            return
        try:
            target.copy_(values)
        except RuntimeError:  # Elements overlap: one after another.
            TensorMemory.of(target).write(0, TensorMemory.of(row_major(values)).copy())
            _count(tensor)

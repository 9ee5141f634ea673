"""Sharded tensors (DTensor): the part that lies in this process, and where it belongs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from everybit.core.damage import Shard
from everybit.probe.memory import version

if TYPE_CHECKING:
    from collections.abc import Sequence

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def local_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the part of a DTensor that lies in this process; any other tensor as it is.

    No collective, no autograd: the very tensor that the DTensor wraps.
    """
    if type(tensor) in _PLAIN:
        return tensor
    local = getattr(tensor, "_local_tensor", None)
    return local if isinstance(local, torch.Tensor) else tensor


def is_sharded(tensor: torch.Tensor) -> bool:
    """Whether the tensor is a DTensor, whatever its placements."""
    return local_of(tensor) is not tensor


def version_of(tensor: torch.Tensor) -> int:
    """Return a number that moves with every counted write to the tensor, or to its local part.

    Operations on a DTensor move its own counter and not that of the tensor it wraps; what FSDP
    does to the local part moves that one.
    """
    local = local_of(tensor)
    return version(tensor) if local is tensor else version(tensor) + version(local)


def shard_of(tensor: torch.Tensor) -> Shard | None:
    """Return which part of the whole a DTensor's local part is; None for any other tensor."""
    if not is_sharded(tensor):
        return None
    placements: Sequence[object] = getattr(tensor, "placements", ())
    return Shard(
        global_shape=tuple(tensor.shape),
        offset=_offset(tensor),
        placements=tuple(str(placement) for placement in placements),
    )


def _offset(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """Return where the local part begins in each dimension; None where it is no plain block."""
    from torch.distributed.tensor import DTensor, Replicate
    from torch.distributed.tensor import Shard as Sharded

    if not isinstance(tensor, DTensor) or any(
        type(placement) not in (Sharded, Replicate) for placement in tensor.placements
    ):
        return None
    try:
        from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

        shape, offset = compute_local_shape_and_global_offset(
            tensor.shape, tensor.device_mesh, tensor.placements
        )
    except (ImportError, RuntimeError, ValueError):
        return None
    if tuple(shape) != tuple(tensor._local_tensor.shape):
        return None
    return tuple(int(start) for start in offset)

"""Digests of whole tensors that lie in shards on several ranks, so that any layout compares.

Grid sums are linear: each rank takes those of its shard at its place in the whole, they are added
up over the ranks, and mixed afterwards. So a model in four shards has the digests of the same model
in four copies, or on one rank.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from everybit.core.grid import GridSums
from everybit.guard.shards import local_of, shard_of
from everybit.probe.digest import grid_words
from everybit.probe.memory import TensorMemory, dtype_name, row_major

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.core.damage import Shard


def whole_words(tensors: Mapping[str, torch.Tensor]) -> dict[str, int]:
    """Return the recorded digest of each tensor as a whole, the same whatever its shards.

    A collective of the job's default group: call it on all ranks, with the same names in the same
    order. Sharded tensors (DTensor) have to lie in plain blocks; a shard that several ranks hold is
    counted once. What is sent is about 1.2 % of the tensors' bytes.

    Args:
        tensors: Parameters, buffers or optimizer state, by name: `model.state_dict()`.

    Raises:
        ValueError: A shard is no plain block of the whole.
    """
    words = {}
    for name, tensor in tensors.items():
        shard = shard_of(tensor)
        if shard is None:
            words[name] = int(grid_words([tensor.detach()])[0])
        else:
            words[name] = _added(name, tensor, shard)
    return words


def _added(name: str, tensor: torch.Tensor, shard: Shard) -> int:
    if shard.offset is None:
        raise ValueError(f"the shard of {name} is no plain block of the whole")
    local = local_of(tensor).detach()
    dtype, shape = dtype_name(local.dtype), shard.global_shape
    size = math.prod(shape) * local.element_size()
    sums = GridSums.empty(size)
    if _is_first(tensor) and local.numel():
        offset = shard.offset[0] * math.prod(shape[1:]) * local.element_size()
        if tuple(local.shape[1:]) != shape[1:]:
            # Not rows of the whole: its runs are short. Zeros elsewhere add nothing.
            local, offset = _spread(local, shard.offset, shape), 0
        data = TensorMemory.of(row_major(local)).copy()
        sums += GridSums.of(data, offset=offset, num_bytes=size)
    flat = np.concatenate([sums.rows, sums.cols.reshape(-1)])
    added = torch.from_numpy(flat.view(np.int64)).to(local.device)
    torch.distributed.all_reduce(added)
    rows, cols = np.split(added.cpu().numpy().view(np.uint64), [len(sums.rows)])
    return GridSums(size, rows, cols.reshape(sums.cols.shape)).digest(dtype, shape).word


def _spread(local: torch.Tensor, offset: tuple[int, ...], shape: tuple[int, ...]) -> torch.Tensor:
    """Return zeros of the whole's shape with a shard in its place."""
    whole = torch.zeros(shape, dtype=local.dtype, device=local.device)
    place = tuple(
        slice(start, start + length) for start, length in zip(offset, local.shape, strict=True)
    )
    whole[place] = local
    return whole


def _is_first(tensor: Any) -> bool:
    """Whether this rank is the first of those that hold its shard."""
    from torch.distributed.tensor import Replicate

    coordinate = tensor.device_mesh.get_coordinate()
    return coordinate is not None and all(
        place == 0
        for placement, place in zip(tensor.placements, coordinate, strict=True)
        if isinstance(placement, Replicate)
    )

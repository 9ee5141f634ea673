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

from everybit.core.grid import (
    BLOCK_BYTES,
    ROW_BYTES,
    ROW_WORDS,
    GridSums,
    num_blocks_of,
    num_rows_of,
)
from everybit.guard.shards import local_of, shard_of
from everybit.probe.digest import grid_words
from everybit.probe.grid_device import DeviceSums
from everybit.probe.memory import TensorMemory, dtype_name, row_major

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.core.damage import Shard
    from everybit.core.grid import Words


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
    local = local_of(tensor)
    sums = own_sums(tensor, shard)
    added = torch.from_numpy(flat_sums(sums).view(np.int64)).to(local.device)
    torch.distributed.all_reduce(added)
    whole = sums_of(added.cpu().numpy().view(np.uint64), sums.num_bytes)
    return whole.digest(dtype_name(local.dtype), shard.global_shape).word


def own_sums(tensor: torch.Tensor, shard: Shard) -> GridSums:
    """Return what this rank adds to the sums of a whole tensor.

    That is nothing where another rank comes first among those that hold the same shard.

    Args:
        tensor: A DTensor.
        shard: Its place, which is a plain block.
    """
    assert shard.offset is not None
    local = local_of(tensor).detach()
    shape, item_bytes = shard.global_shape, local.element_size()
    num_bytes = math.prod(shape) * item_bytes
    if not is_first(tensor) or not local.numel():
        return GridSums.empty(num_bytes)
    offset = shard.offset[0] * math.prod(shape[1:]) * item_bytes
    if tuple(local.shape[1:]) != shape[1:]:
        # Not rows of the whole: its runs are short. Zeros elsewhere add nothing.
        local, offset = _spread(local, shard.offset, shape), 0
    memory = TensorMemory.of(row_major(local))
    if local.device.type == "cpu":
        return GridSums.of(memory.bytes_().data, offset=offset, num_bytes=num_bytes)
    return _sums_on_device(memory, offset, num_bytes)


def flat_sums(sums: GridSums) -> Words:
    """Return row and column sums one after another: uint64, one dimension."""
    return np.concatenate([sums.rows, sums.cols.reshape(-1)])


def num_sums(num_bytes: int) -> int:
    """Return how many sums a tensor of so many bytes has."""
    return num_rows_of(num_bytes) + num_blocks_of(num_bytes) * ROW_WORDS


def sums_of(flat: Words, num_bytes: int) -> GridSums:
    """Return the sums whose flat form is given."""
    rows, cols = np.split(flat, [num_rows_of(num_bytes)])
    return GridSums(num_bytes, rows, cols.reshape(-1, ROW_WORDS))


def _sums_on_device(memory: TensorMemory, offset: int, num_bytes: int) -> GridSums:
    """Return the sums of a shard that does not lie on the host: only they are copied."""
    lead = offset % BLOCK_BYTES
    raw = torch.nn.functional.pad(memory.flat().view(torch.uint8), (lead, 0))
    part = DeviceSums.of(TensorMemory.of(raw)).to_host()
    sums = GridSums.empty(num_bytes)
    row, block = (offset - lead) // ROW_BYTES, (offset - lead) // BLOCK_BYTES
    sums.rows[row : row + len(part.rows)] = part.rows
    sums.cols[block : block + len(part.cols)] = part.cols
    return sums


def _spread(local: torch.Tensor, offset: tuple[int, ...], shape: tuple[int, ...]) -> torch.Tensor:
    """Return zeros of the whole's shape with a shard in its place."""
    whole = torch.zeros(shape, dtype=local.dtype, device=local.device)
    place = tuple(
        slice(start, start + length) for start, length in zip(offset, local.shape, strict=True)
    )
    whole[place] = local
    return whole


def is_first(tensor: Any) -> bool:
    """Whether this rank is the first of those that hold its shard."""
    from torch.distributed.tensor import Replicate

    coordinate = tensor.device_mesh.get_coordinate()
    return coordinate is not None and all(
        place == 0
        for placement, place in zip(tensor.placements, coordinate, strict=True)
        if isinstance(placement, Replicate)
    )


def is_split(tensor: Any) -> bool:
    """Whether several ranks hold different parts of a DTensor."""
    from torch.distributed.tensor import Replicate

    return any(
        not isinstance(placement, Replicate) and tensor.device_mesh.size(dimension) > 1
        for dimension, placement in enumerate(tensor.placements)
    )

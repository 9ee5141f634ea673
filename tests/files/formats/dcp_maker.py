"""DCP folders: as torch writes them, and put together as two ranks would leave them."""

from __future__ import annotations

import pickle
import warnings
from typing import TYPE_CHECKING

import torch
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex

if TYPE_CHECKING:
    from pathlib import Path


def whole_tensors() -> dict[str, torch.Tensor]:
    """The tensors that are sharded over two ranks."""
    rng = torch.Generator().manual_seed(1)
    return {
        "rows": torch.randn(7, 5, generator=rng),
        "columns": torch.randn(6, 9, generator=rng),
        "copies": torch.randn(11, generator=rng),
        "half": torch.randn(4, 3, 2, generator=rng).bfloat16(),
    }


#: The dimension along which each is cut; None for one that rank 0 saves for all.
_CUTS = {"rows": 0, "columns": 1, "copies": None, "half": 2}


def save_dcp(value: dict, folder: Path) -> Path:
    """Save in one process; return the one `.distcp` file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save(value, checkpoint_id=str(folder), no_dist=True)
    return folder / "__0_0.distcp"


def load_metadata(folder: Path):
    """Return the `Metadata` of a folder."""
    with (folder / ".metadata").open("rb") as file:
        return pickle.load(file)


def store_metadata(folder: Path, metadata) -> None:
    """Write the `Metadata` of a folder."""
    with (folder / ".metadata").open("wb") as file:
        pickle.dump(metadata, file)


def save_dcp_of_two_ranks(folder: Path) -> None:
    """Save chunks as two ranks do, each in its file, under one `.metadata`."""
    whole = whole_tensors()
    folder.mkdir()
    merged = None
    for rank in range(2):
        parts, offsets = _shards(whole, rank)
        alone = folder.with_name(f"{folder.name}.{rank}")
        path = save_dcp(parts if rank else {**parts, "step": 12}, alone)
        name = f"__{rank}_0.distcp"
        path.rename(folder / name)
        metadata = load_metadata(alone)
        for key, info in list(metadata.storage_data.items()):
            info.relative_path = name
            if key.fqn in offsets:
                del metadata.storage_data[key]
                metadata.storage_data[MetadataIndex(key.fqn, offsets[key.fqn], rank)] = info
        for key, part in parts.items():
            listed = metadata.state_dict_metadata[key]
            listed.size = whole[key].shape
            listed.chunks = [ChunkStorageMetadata(torch.Size(offsets[key]), part.shape)]
        if merged is None:
            merged = metadata
            continue
        merged.storage_data |= metadata.storage_data
        for key in parts:
            merged.state_dict_metadata[key].chunks += metadata.state_dict_metadata[key].chunks
    store_metadata(folder, merged)


def _shards(whole, rank):
    parts, offsets = {}, {}
    for key, tensor in whole.items():
        cut = _CUTS[key]
        if cut is None:
            if rank == 0:
                parts[key], offsets[key] = tensor, (0,) * tensor.dim()
            continue
        half = -(-tensor.shape[cut] // 2)
        begin, end = (0, half) if rank == 0 else (half, tensor.shape[cut])
        parts[key] = tensor.narrow(cut, begin, end - begin).clone()
        offsets[key] = tuple(begin if axis == cut else 0 for axis in range(tensor.dim()))
    return parts, offsets

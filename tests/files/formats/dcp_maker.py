"""DCP folders, written by torch itself: in one process, or by two ranks over gloo."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from typing import TYPE_CHECKING

import torch
from torch.distributed import checkpoint as dcp

if TYPE_CHECKING:
    from pathlib import Path

_RANKS = """
import os, sys, torch
import torch.distributed as dist
from torch.distributed import checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
rank, folder, store = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
mesh = init_device_mesh("cpu", (2,))
rng = torch.Generator().manual_seed(1)
state = {
    "rows": distribute_tensor(torch.randn(7, 5, generator=rng), mesh, [Shard(0)]),
    "columns": distribute_tensor(torch.randn(6, 9, generator=rng), mesh, [Shard(1)]),
    "copies": distribute_tensor(torch.randn(11, generator=rng), mesh, [Replicate()]),
    "half": distribute_tensor(torch.randn(4, 3, 2, generator=rng).bfloat16(), mesh, [Shard(2)]),
    "step": 12,
}
dcp.save(state, checkpoint_id=folder)
dist.destroy_process_group()
"""


def whole_tensors() -> dict[str, torch.Tensor]:
    """The tensors that the two ranks save."""
    rng = torch.Generator().manual_seed(1)
    return {
        "rows": torch.randn(7, 5, generator=rng),
        "columns": torch.randn(6, 9, generator=rng),
        "copies": torch.randn(11, generator=rng),
        "half": torch.randn(4, 3, 2, generator=rng).bfloat16(),
    }


def save_dcp(value: dict, folder: Path) -> Path:
    """Save in one process; return the one `.distcp` file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save(value, checkpoint_id=str(folder), no_dist=True)
    return folder / "__0_0.distcp"


def save_dcp_on_two_ranks(folder: Path) -> None:
    """Save sharded tensors from two processes."""
    store = folder.with_name(folder.name + ".store")
    env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", _RANKS, str(rank), str(folder), str(store)],
            env=env,
        )
        for rank in range(2)
    ]
    assert [rank.wait(timeout=120) for rank in ranks] == [0, 0]

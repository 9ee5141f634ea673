"""Tracing of models within wrappers for several processes, here with one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.distributed as dist
from tests.guard.trace.traced import gradients, outputs, trace
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

X = torch.linspace(-1, 1, 32).reshape(4, 8)


def total(model: nn.Module) -> torch.Tensor:
    return model(X).pow(2).mean()


def plain() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))


@pytest.fixture
def _group() -> Iterator[None]:
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    yield
    dist.destroy_process_group()


def wrappers() -> list[Any]:
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    return [
        pytest.param(DistributedDataParallel, id="ddp"),
        pytest.param(lambda m: fully_shard(m, mesh=_mesh()), id="fsdp2"),
        pytest.param(nn.DataParallel, id="dp"),
    ]


def _mesh() -> Any:
    return dist.device_mesh.init_device_mesh("cpu", (1,))


@pytest.mark.usefixtures("_group")
@pytest.mark.parametrize("wrap", wrappers())
def test_names_and_digests_are_those_of_the_model_inside(wrap: Any, tmp_path: Path) -> None:
    (bare,), _ = trace(tmp_path / "bare", plain(), total)
    (record,), _ = trace(tmp_path / "wrapped", wrap(plain()), total)
    assert outputs(record) == outputs(bare)
    assert gradients(record) == gradients(bare)

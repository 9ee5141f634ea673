"""One rank against two on gloo, and runs traced by operation: recorded, read back and compared."""

from __future__ import annotations

import ctypes
import textwrap
from typing import TYPE_CHECKING

import torch
from tests.forked import Job, run_forked
from tests.guard.test_ranks import free_port
from torch import nn

import everybit

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
    import ctypes, os
    import torch, torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel as DDP
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
    import everybit

    world, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
    if world > 1:
        dist.init_process_group("gloo")

    class Order(DistributedSampler):
        swapped = {}
        def __iter__(self):
            return iter([self.swapped.get(index, index) for index in super().__iter__()])

    def train(run, swapped=None, flip_at=None):
        # Two ranks with 8 samples each see in a step what one rank with 16 does.
        torch.manual_seed(0)
        data = TensorDataset(torch.randn(96, 20), torch.randint(5, (96,)))
        model = nn.Sequential(nn.Linear(20, 200), nn.Tanh(), nn.Linear(200, 5))
        watched = DDP(model) if world > 1 else model
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        sampler = Order(data, world, rank, shuffle=False)
        sampler.swapped = swapped or {}
        loader = DataLoader(data, 16 // world, sampler=sampler)
        settings = {"replay_every": 0, "on_finding": "record", "patience_s": 20}
        with everybit.Guard(watched, optimizer, run=f"runs/{run}", **settings):
            for step, (x, y) in enumerate(loader):
                if step == flip_at and rank == 1:
                    address = model[0].weight.data_ptr() + 4 * 77 + 3
                    ctypes.c_ubyte.from_address(address).value ^= 0x40
                nn.functional.cross_entropy(watched(x), y).backward()
                optimizer.step()
                optimizer.zero_grad()
        if world > 1:
            dist.barrier()

    train(f"clean-{world}")
    if world > 1:
        train("swapped", swapped={7: 90})
        train("swapped-later", swapped={40: 90})
        train("flipped", flip_at=3)
        dist.destroy_process_group()
"""


def jobs(world_size: int) -> list[Job]:
    """The ranks of one job, as torchrun would start them."""
    port = free_port()
    return [
        Job(
            name=f"of-{world_size}-{rank}",
            script=["train.py"],
            environment={
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(world_size),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
            },
        )
        for rank in range(world_size)
    ]


def test_two_ranks_against_one(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(SCRIPT))
    ended = run_forked(tmp_path, [*jobs(1), *jobs(2)])
    assert {code for code, _, _ in ended.values()} == {0}, ended
    runs = tmp_path / "runs"

    # Sums over the batch are made in another order: rounding, and no more than that.
    verdict = everybit.diff(runs / "clean-1", runs / "clean-2")
    assert verdict.first is not None
    assert verdict.first.kind == "noise"
    assert "ranks" in [each["entry"] for each in verdict.explained_by]

    # Samples 0 to 15 are those of step 0, over both ranks: one of them was exchanged.
    verdict = everybit.diff(runs / "clean-1", runs / "swapped")
    assert verdict.first is not None
    assert (verdict.first.kind, verdict.first.where.step) == ("data", 0)
    assert verdict.first.where.sample == 7
    # Later than that the sums have parted before; what was delivered is compared all the same.
    verdict = everybit.diff(runs / "clean-1", runs / "swapped-later")
    assert verdict.first is not None
    assert (verdict.first.kind, verdict.first.where.step) == ("noise", 0)
    assert verdict.findings[0].evidence["samples_part_later"] == {
        "step": 2,
        "kind": "data",
        "why": "one sample of the step differs: 40 in A, 90 in B",
        "sample": 40,
    }

    # A bit of one rank's weights flipped before step 3, against the same job on as many ranks.
    verdict = everybit.diff(runs / "clean-2", runs / "flipped")
    assert verdict.first is not None
    where = verdict.first.where
    assert (verdict.first.kind, where.step, where.rank) == ("corruption", 3, 1)
    assert (where.parameter, where.elements) == ("0.weight", (77,))


class Net(nn.Module):
    """Two layers, between which an activation is damaged at one step."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(12, 96)
        self.outer = nn.Linear(96, 4)
        self.damaged = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.inner(x))
        if self.damaged:
            ctypes.c_ubyte.from_address(hidden.data_ptr() + 4 * 5 + 3).value ^= 0x20
        return self.outer(hidden)


def train(run: Path, *, damage_at: int = -1, validate_at: int = -1) -> None:
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with everybit.Guard(net, optimizer, run=run, trace="op", replay_every=0, on_finding="record"):
        for step in range(4):
            x = torch.randn(8, 12)
            if step == validate_at:
                net.eval()
                with torch.no_grad():
                    net(torch.ones(8, 12))
                net.train()
            net.damaged = step == damage_at
            net(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()


def test_runs_traced_by_operation(tmp_path: Path) -> None:
    train(tmp_path / "a")
    train(tmp_path / "validated", validate_at=2)
    train(tmp_path / "damaged", damage_at=2)
    assert everybit.diff(tmp_path / "a", tmp_path / "validated").ok
    verdict = everybit.diff(tmp_path / "a", tmp_path / "damaged")
    assert verdict.first is not None
    where = verdict.first.where
    assert (where.step, where.link, where.module) == (2, "forward", "outer")
    assert verdict.first.kind == "corruption"
    assert "aten.addmm #0 in outer" in verdict.findings[0].message

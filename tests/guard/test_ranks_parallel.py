"""Every way to be parallel, on two ranks: the same bits, and flips on one placed and healed."""

from __future__ import annotations

import contextlib
import json
import textwrap
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.forked import run_forked
from tests.guard.test_ranks import ranks
from tests.guard.watched import flip

import everybit

if TYPE_CHECKING:
    from pathlib import Path

#: Trains each way twice, bare and watched; a weight and its gradient are flipped on rank 1.
SCRIPT = """
    import contextlib, copy, ctypes, hashlib, json, os, sys, warnings
    import torch, torch.distributed as dist
    from torch import nn
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, fully_shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel, RowwiseParallel, parallelize_module,
    )
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.nn.parallel import DistributedDataParallel as DDP
    import everybit

    warnings.simplefilter("ignore")
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))

    class Net(nn.Module):
        def __init__(self, sometimes=False):
            super().__init__()
            self.first = nn.Linear(9, 300)
            self.norm = nn.BatchNorm1d(300)
            self.last = nn.Linear(300, 7)
            self.sometimes = nn.Linear(9, 7) if sometimes else None
            self.num_calls = 0

        def forward(self, x):
            self.num_calls += 1
            y = self.last(self.norm(self.first(x)).relu())
            return y + self.sometimes(x) if self.sometimes and self.num_calls % 2 else y

    def ddp(**options):
        def build():
            model = DDP(Net(sometimes=options.get("find_unused_parameters")), **options)
            return model, torch.optim.AdamW(model.parameters())
        return build

    def hooked():
        model, optimizer = ddp()()
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
        return model, optimizer

    def sgd():
        model, _ = ddp(gradient_as_bucket_view=True)()
        return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def zero():
        model, _ = ddp()()
        return model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3)

    def plain():
        return nn.Sequential(nn.Linear(9, 300), nn.LayerNorm(300), nn.ReLU(), nn.Linear(300, 7))

    def fsdp2(**options):
        model = plain()
        for part in (model[0], model[3], model):
            fully_shard(part, mesh=mesh, **options)
        return model, torch.optim.AdamW(model.parameters(), foreach=True)

    def fsdp1():
        model = FSDP(plain(), device_id=torch.device("cpu"), use_orig_params=True)
        return model, torch.optim.AdamW(model.parameters())

    def tensor_parallel():
        model = nn.Sequential(nn.Linear(9, 300), nn.ReLU(), nn.Linear(300, 7))
        parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        return model, torch.optim.AdamW(model.parameters(), foreach=False)

    BUILD = {
        "ddp": ddp(),
        "no_sync": ddp(),
        "bucket_view": ddp(gradient_as_bucket_view=True),
        "find_unused": ddp(find_unused_parameters=True),
        "static_graph": ddp(static_graph=True),
        "comm_hook": hooked,
        "bucket_view_sgd": sgd,
        "no_buffers": ddp(broadcast_buffers=False),
        "zero": zero,
        "fsdp2": fsdp2,
        "fsdp2_keep": lambda: fsdp2(reshard_after_forward=False),
        "fsdp1": fsdp1,
        "tensor_parallel": tensor_parallel,
    }

    def local(tensor):
        return getattr(tensor, "_local_tensor", tensor)

    def flip(tensor, element):
        address = local(tensor).data_ptr() + 4 * element + 1
        ctypes.c_ubyte.from_address(address).value ^= 0x40

    def train(name, watched):
        torch.manual_seed(0)
        model, optimizer = BUILD[name]()
        torch.manual_seed(100 + (0 if name == "tensor_parallel" else rank))
        weight = next(p for p in model.parameters() if local(p).numel() > 1000)
        digest = hashlib.sha256()
        guard = contextlib.nullcontext()
        if watched:
            guard = everybit.Guard(model, optimizer, run=name, on_finding="heal", shadow=True)
        with guard:
            for step in range(5):
                if watched and rank == 1 and step == 2:
                    flip(weight, 1100)
                if name == "no_sync":
                    with model.no_sync():
                        model(torch.randn(8, 9)).square().mean().backward()
                loss = model(torch.randn(8, 9)).square().mean()
                loss.backward()
                if watched and rank == 1 and step == 3:
                    flip(weight.grad, 1100)
                optimizer.step()
                optimizer.zero_grad(set_to_none=step % 2 == 0)
                digest.update(loss.item().hex().encode())
            if name == "fsdp2":  # Shards are gathered and stay so after an evaluation.
                with torch.no_grad():
                    digest.update(model(torch.ones(8, 9)).sum().item().hex().encode())
        for tensor in [*model.parameters(), *model.buffers()]:
            digest.update(local(tensor).detach().numpy().tobytes())
        for state in optimizer.state.values():
            for tensor in state.values():
                digest.update(local(tensor).detach().numpy().tobytes())
        return digest.hexdigest(), guard

    results = {}
    for name in sys.argv[2].split(","):
        bare, _ = train(name, False)
        same, guard = train(name, True)
        results[name] = {
            "same": bare == same,
            "findings": [finding.to_json() for finding in guard.findings],
            "skipped": [f"{item.what}: {item.why}" for item in guard.coverage.skipped],
            "checked": {item.what: item.count for item in guard.coverage.checked},
        }
    with open(f"results.{rank}", "w") as file:
        json.dump(results, file)
    dist.barrier()
    dist.destroy_process_group()
"""

WAYS = (
    "ddp", "no_sync", "bucket_view", "find_unused", "static_graph", "comm_hook", "bucket_view_sgd",
    "no_buffers", "zero", "fsdp2", "fsdp2_keep", "fsdp1", "tensor_parallel",
)  # fmt: skip
SHARDED = ("fsdp2", "fsdp2_keep", "tensor_parallel")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    place: Path = tmp_path_factory.mktemp("ways")
    (place / "train.py").write_text(textwrap.dedent(SCRIPT))
    ended = run_forked(place, ranks("all", [], "ways", ",".join(WAYS)))
    assert [code for code, _, _ in ended.values()] == [0, 0], ended
    return [json.loads((place / f"results.{rank}").read_text()) for rank in range(2)]


@pytest.mark.parametrize("way", WAYS)
def test_same_bits_and_every_flip(results: list[dict[str, Any]], way: str) -> None:
    for rank in range(2):
        found = results[rank][way]
        assert found["same"], (rank, results[0][way], results[1][way])
        # What has no copy on another rank, and what cannot be computed again, is told there.
        elsewhere = (" across ranks: ", " of a model again: ")
        assert [s for s in found["skipped"] if not any(words in s for words in elsewhere)] == []
        assert found["checked"]["steps recorded"] == 5
        assert found["checked"]["tests of a gradient at rest"] > 0
    assert results[0][way]["findings"] == []
    weight, gradient = results[1][way]["findings"]
    assert (weight["rule"], gradient["rule"]) == ("MEM601", "MEM603")
    assert (weight["where"]["step"], gradient["where"]["step"]) == (2, 3)
    for finding in (weight, gradient):
        assert finding["where"]["rank"] == 1
        assert finding["where"]["elements"] == [1100]
        assert finding["where"]["parameter"].split(".") in (
            ["first", "weight"],
            ["0", "weight"],
            ["3", "weight"],
        )
        assert finding["evidence"]["healed"]
        assert finding["evidence"]["num_bits"] == 1


@pytest.mark.parametrize("way", SHARDED)
def test_a_shard_is_placed_in_the_whole(results: list[dict[str, Any]], way: str) -> None:
    for finding in results[1][way]["findings"]:
        assert "(this rank's shard)" in finding["message"]
        shard = finding["evidence"]["shard"]
        assert shard["global_shape"] == [300, 9]
        assert shard["offset"] == [150, 0]
        assert finding["evidence"]["shape"] == [150, 9]
        assert finding["evidence"]["global_elements"] == [1100 + 150 * 9]


def test_data_parallel(tmp_path: Path) -> None:
    """On a machine without GPUs it calls the model itself; with them its replicas are no roots."""

    def train(watched: bool) -> tuple[bytes, Any]:
        torch.manual_seed(0)
        model = torch.nn.DataParallel(torch.nn.Linear(9, 300))
        optimizer = torch.optim.AdamW(model.parameters())
        guard = everybit.Guard(model, optimizer, run=tmp_path, on_finding="heal")
        with guard if watched else contextlib.nullcontext():
            for step in range(4):
                if watched and step == 2:
                    flip(model.module.weight, 1100, 14)
                model(torch.randn(8, 9)).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
        return model.module.weight.detach().numpy().tobytes(), guard

    (bare, _), (same, guard) = train(watched=False), train(watched=True)
    assert bare == same
    (finding,) = guard.findings
    assert (finding.where.parameter, finding.where.elements) == ("weight", (1100,))
    assert guard.coverage.skipped == ()

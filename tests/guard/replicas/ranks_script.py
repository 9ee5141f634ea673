"""What three gloo ranks do in the tests of replicas: scenario after scenario in one job."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from tests.forked import Job, run_forked
from tests.guard.test_ranks import free_port

if TYPE_CHECKING:
    from pathlib import Path

WORLD_SIZE = 3

PRELUDE = """
    import contextlib, copy, ctypes, hashlib, json, os, sys, time, warnings
    import torch, torch.distributed as dist
    from torch import nn
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    from torch.nn.parallel import DistributedDataParallel as DDP
    import everybit

    warnings.simplefilter("ignore")
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    results = {}
    STEPS, AT, ELEMENT = 6, 3, 1100

    def local(tensor):
        return getattr(tensor, "_local_tensor", tensor)

    def flip(tensor, element=ELEMENT):
        address = local(tensor).data_ptr() + 4 * element + 1
        ctypes.c_ubyte.from_address(address).value ^= 0x40

    def plain(seed=0, norm=nn.LayerNorm):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(20, 300), norm(300), nn.ReLU(), nn.Linear(300, 9))

    def ddp(seed=0, norm=nn.LayerNorm, **options):
        model = DDP(plain(seed, norm), **options)
        return model, torch.optim.AdamW(model.parameters())

    def digest(model):
        found = hashlib.sha256()
        for tensor in model.parameters():
            found.update(local(tensor).detach().numpy().tobytes())
        return found.hexdigest()

    real_backward = torch.autograd.backward

    def train(build, *, on="warn", within=None, behind=None, forward=None, run="", **settings):
        # `within(model, optimizer)` is called inside the update on the last rank; `behind` when
        # its gradients have been reduced.
        model, optimizer = build()
        torch.manual_seed(100 + rank)
        step = 0

        def update_ends(*_):
            if within is not None and step == AT:
                within(model, optimizer)

        def backward(*args, **kwargs):
            real_backward(*args, **kwargs)
            if behind is not None and step == AT:
                behind(model, optimizer)

        optimizer.register_step_post_hook(update_ends)
        torch.autograd.backward = backward
        guard = contextlib.nullcontext()
        if on is not None:
            settings = {"patience_s": 20, "replay_every": 0, "gradients": True, **settings}
            guard = everybit.Guard(model, optimizer, run=f"runs/{run}", on_finding=on, **settings)
        longest = 0.0
        with guard:
            for step in range(STEPS):
                if forward is not None:
                    forward(model)
                else:
                    model(torch.randn(8, 20)).square().mean().backward()
                began = time.monotonic()
                optimizer.step()
                longest = max(longest, time.monotonic() - began)
                optimizer.zero_grad()
        torch.autograd.backward = real_backward
        return model, guard, longest

    def scenario(**options):
        def run(body):
            name = body.__name__
            made = body() or {}
            model, guard, longest = train(made.pop("build", ddp), run=name, **options, **made)
            if isinstance(guard, everybit.Guard):
                results[name] = {
                    "findings": [finding.to_json() for finding in guard.findings],
                    "skipped": [[s.what, s.why, s.promised] for s in guard.coverage.skipped],
                    "checked": {c.what: c.count for c in guard.coverage.checked},
                    "digest": digest(model),
                    "longest": longest,
                }
            else:
                results[name] = {"digest": digest(model)}
            dist.barrier()
        return run
"""

END = """
    with open(f"results.{rank}", "w") as file:
        json.dump(results, file)
    dist.barrier()
    dist.destroy_process_group()
"""


def run_scenarios(
    place: Path, scenarios: str, *, world_size: int = WORLD_SIZE
) -> list[dict[str, dict[str, object]]]:
    """Run scenarios on all ranks; return each rank's results, by scenario."""
    import json

    script = textwrap.dedent(PRELUDE) + textwrap.dedent(scenarios) + textwrap.dedent(END)
    (place / "train.py").write_text(script)
    ended = run_forked(place, three_ranks(world_size=world_size))
    assert [code for code, _, _ in ended.values()] == [0] * world_size, ended
    return [json.loads((place / f"results.{rank}").read_text()) for rank in range(world_size)]


def three_ranks(*args: str, world_size: int = WORLD_SIZE) -> list[Job]:
    """Three ranks, or as many as are asked for, as torchrun would start them."""
    port = free_port()
    return [
        Job(
            name=f"r{rank}",
            script=["train.py", *args],
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

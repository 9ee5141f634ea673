"""What each of three ranks runs: many small trainings, each with a fault on one rank."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

import torch
import torch.distributed as dist
from bench.closure_loops import Loop, build, cnn, flip, gpt, target
from torch.nn.parallel import DistributedDataParallel

import everybit
from everybit.inject import ComputedCampaign, ComputedFault, ComputedKind

MODELS = {"gpt": gpt, "cnn": cnn}
#: The rank that is hit.
HIT = 1
STEP = 3
MODULES = {"gpt": "blocks.0.up", "cnn": "norm"}


def train(model: str, folder: str, case: str) -> dict[str, Any]:
    """Train under the Guard, hit by the fault of a case; `bare` and `clean` are not."""
    kind, _, point = case.partition("@")
    told: list[Any] = []

    def hit(loop: Loop, at: str) -> None:
        if dist.get_rank() == HIT and (at, loop.at) == (point, STEP) and not told:
            name, tensor, slot = target(loop, kind, random.Random(case))
            flip(tensor, tensor.numel() // 2, 20)
            told.append([name, slot])

    loop = build(MODELS[model], hit=hit, steps=5)
    torch.manual_seed(dist.get_rank())
    loop.root = DistributedDataParallel(loop.model)
    generator, make = torch.Generator().manual_seed(dist.get_rank()), loop.batch
    loop.batch = lambda _: make(generator)
    if case == "bare":
        loop.run(lambda fn, *args: fn(*args))
        return {"bits": loop.bits()}
    faults = []
    if not point and case != "clean":
        kinds = ComputedKind(case)
        faults = [ComputedFault(kind=kinds, module=MODULES[model], step=STEP, rank=HIT, seed=4)]
    settings: dict[str, Any] = {"on_finding": "rewind", "replay_every": 1, "incident_mb": 0}
    with everybit.Guard(
        loop.root, loop.optimizer, run=f"{folder}/{model}-{case}", **settings
    ) as guard:
        campaign = ComputedCampaign(
            faults, loop.root, loop.optimizer, count=lambda: int(guard.step), rank=dist.get_rank()
        )
        with campaign:
            loop.run(guard.step)
    return {
        "bits": loop.bits(),
        "hits": len(campaign.hits),
        "refused": [why for _, why in campaign.refused],
        "told": told,
        "findings": [[f.rule, f.message, f.where.to_json()] for f in guard.findings],
        "checked": {each.what: each.count for each in guard.coverage.checked},
        "skipped": [[s.what, s.why] for s in guard.coverage.skipped if s.promised],
    }


if __name__ == "__main__":
    cases, folder = sys.argv[1].split(","), sys.argv[2]
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    found = {f"{m} {case}": train(m, folder, case) for m in MODELS for case in cases}
    Path(f"{folder}/ranks.{dist.get_rank()}.json").write_text(json.dumps(found))
    dist.destroy_process_group()

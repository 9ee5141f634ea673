"""Runs in the closure form, hit at every step: do they end bit for bit as undisturbed ones?

For each model and each place a run of `--faults` + 8 steps is hit by that many faults, one a step,
and compared with the same run unhurt: weights, buffers, optimizer state, losses, random generator.
Each fault has to be named: rule, step, and parameter or module.

    python -m bench.survival --out bench/results/survival.json
    python -m bench.survival --ranks 3 --out bench/results/survival-ranks.json
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from bench.closure_loops import MEMORY, Loop, build, cnn, flip, gpt, target
from bench.kept import commit
from torch.nn.parallel import DistributedDataParallel

import everybit
from everybit.inject import ComputedCampaign, ComputedFault, ComputedKind

if TYPE_CHECKING:
    from collections.abc import Sequence

MODELS = {"gpt": gpt, "cnn": cnn}
MODULES = {
    "gpt": ["blocks.0.norm1", "blocks.0.qkv", "blocks.0.down", "blocks.1.up", "norm", "head"],
    "cnn": ["conv1", "norm", "conv2", "head"],
}
COMPUTED = [
    ComputedKind.ACTIVATION,
    ComputedKind.INPUT_GRADIENT,
    ComputedKind.PARAMETER_GRADIENT,
    ComputedKind.SAVED,
    ComputedKind.BATCH,
    ComputedKind.LOSS,
    ComputedKind.RNG,
]
#: A module that is given the batch itself passes no gradient back, and saves what is not computed.
FIRST_MODULES = {"cnn": "conv1"}
#: Steps before the first fault, in which the run shows that it repeats.
FIRST = 4
RULES = {"moment": "MEM602", "gradient": "MEM603"}


def places() -> list[str]:
    """Return the names of all places."""
    return [f"{kind}@{point}" for kind, point in MEMORY] + [str(kind) for kind in COMPUTED]


def rank_here() -> int:
    """Return this process's rank."""
    return dist.get_rank() if dist.is_initialized() else 0


def ready(model: str, steps: int) -> Loop:
    """Return a training run, of this rank."""
    loop = build(MODELS[model], steps=steps)
    if dist.is_initialized():
        torch.manual_seed(rank_here())
        loop.root = DistributedDataParallel(loop.model)
        generator, make = torch.Generator().manual_seed(rank_here()), loop.batch
        loop.batch = lambda _: make(generator)
    return loop


def trial(model: str, place: str, faults: int, seed: int, hit_rank: int) -> dict[str, Any]:
    """Run one model hit at one place, and compare it with the undisturbed run."""
    steps = FIRST + faults + 4
    plain = ready(model, steps)
    plain.run(lambda fn, *args: fn(*args))
    rng = random.Random(f"{seed} {model} {place}")
    loop = ready(model, steps)
    kind, _, point = place.partition("@")
    wanted: dict[int, Any] = {}
    mine = rank_here() == hit_rank

    def hit(loop: Loop, at: str) -> None:
        step = loop.at
        if at != point or step in wanted or not FIRST <= step < FIRST + faults:
            return
        name, tensor, slot = target(loop, kind, rng)
        count = 1 if rng.random() < 0.6 else min(rng.choice([2, 16, 40]), tensor.numel())
        elements = rng.sample(range(tensor.numel()), count)
        wanted[step] = (name, slot)
        if mine:
            for element in elements:
                flip(tensor, element, rng.randrange(8 * tensor.element_size()))

    computed = []
    if point:
        loop.hit = hit
    else:
        inner = kind in (ComputedKind.INPUT_GRADIENT, ComputedKind.SAVED)
        able = [name for name in MODULES[model] if not inner or name != FIRST_MODULES.get(model)]
        for step in range(FIRST, FIRST + faults):
            module = rng.choice(able)
            draw = rng.randrange(10**6)
            computed.append(
                ComputedFault(
                    kind=ComputedKind(kind), module=module, step=step, seed=draw, rank=hit_rank
                )
            )
    settings: dict[str, Any] = {"on_finding": "rewind", "replay_every": 1, "incident_mb": 0}
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        if dist.is_initialized():
            shared = [folder]
            dist.broadcast_object_list(shared)
            folder = shared[0]
        with everybit.Guard(loop.root, loop.optimizer, run=f"{folder}/r", **settings) as guard:
            campaign = ComputedCampaign(
                computed, loop.root, loop.optimizer, count=lambda: int(guard.step), rank=rank_here()
            )
            with campaign:
                loop.run(guard.step)
        if dist.is_initialized():
            dist.barrier()
    for one in campaign.hits:
        wanted[one.fault.step] = (one.fault.module, None)
    if not mine:
        wanted = {}
    return {
        "model": model,
        "place": place,
        "identical": loop.bits() == plain.bits(),
        "faults": len(wanted),
        "seconds": round(time.perf_counter() - began, 1),
        **judged(kind, point, wanted, guard.findings, campaign.hits),
    }


def judged(
    kind: str, point: str, wanted: dict[int, Any], findings: Sequence[Any], hits: Sequence[Any]
) -> dict[str, Any]:
    """Return how many faults were named, and what was said beside them.

    A fault that changes no bit of a result is masked, and nothing is to be said of it: the run ends
    as the undisturbed one. A tensor that a module saves may be what a function before it saves as
    well (what `relu` gives, say): such a fault acts first in the module that calls that function,
    and is placed there by its element.
    """
    late = point == "updated" or (kind, point) == ("buffer", "forward")
    unchanged = {one.fault.step for one in hits if not one.changes}
    by_step: dict[int, list[Any]] = {}
    for finding in findings:
        by_step.setdefault(finding.where.step - late, []).append(finding)
    named = placed = masked = also = 0
    for step, (name, slot) in wanted.items():
        found = by_step.pop(step, [])
        masked += not found
        if not found:
            continue
        named += 1
        also += len(found) - 1
        where = found[0].where
        if point:
            rule = RULES.get(kind, "MEM601")
            told = [(each.rule, each.where.parameter, each.where.tensor) for each in found]
            placed += (rule, name, slot) in told
        elif kind in ("batch", "loss"):
            placed += any(str(each.where.link) == kind for each in found)
        elif kind == "rng":
            placed += found[0].rule == "CMP701"
        else:
            (hit,) = (one for one in hits if one.fault.step == step)
            placed += where.module == name or (
                kind == "saved-activation"
                and (f"{name}.").startswith(f"{where.module}." if where.module else "")
                and where.elements == hit.where.elements
            )
    others = sum(len(found) for found in by_step.values())
    return {
        "named": named,
        "placed": placed,
        "masked": masked,
        "also_said": also,
        "unchanged": len(unchanged),
        "other_findings": others,
    }


def main() -> None:
    """Run the campaign."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=None, help="places")
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.ranks > 1 and "RANK" not in os.environ:
        start(options.ranks)
        return
    if options.ranks > 1:
        dist.init_process_group("gloo")
    rows = []
    for model in options.models:
        for place in options.only or places():
            hit_rank = 1 if options.ranks > 1 else 0
            row = trial(model, place, options.faults, options.seed, hit_rank)
            if dist.is_initialized():
                every: list[Any] = [None] * options.ranks
                dist.all_gather_object(every, row)
                row = every[hit_rank] | {
                    "identical": all(each["identical"] for each in every),
                    "other_findings": sum(each["other_findings"] for each in every),
                }
            rows.append(row)
            if rank_here() == 0:
                print(json.dumps(row), flush=True)
                if options.out is not None:
                    facts = {"seed": options.seed, "ranks": options.ranks}
                    facts |= {"commit": commit(), "torch": torch.__version__}
                    text = json.dumps(facts | {"rows": rows}, indent=1)
                    options.out.write_text(text + "\n", encoding="utf-8")
    if dist.is_initialized():
        dist.destroy_process_group()


def start(count: int) -> None:
    """Start the ranks, and wait for them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    command = [sys.executable, "-m", "bench.survival", *sys.argv[1:]]
    ranks = [
        subprocess.Popen(command, env=os.environ | common | {"RANK": str(r), "LOCAL_RANK": str(r)})
        for r in range(count)
    ]
    sys.exit(max(rank.wait() for rank in ranks))


if __name__ == "__main__":
    main()

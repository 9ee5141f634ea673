"""What the check on replicas costs: a small GPT under DistributedDataParallel on three gloo ranks.

    python bench/replicas.py [--pairs 24] [--layers 4] [--width 256] [--batch 8]

One guarded run. Blocks of four steps take turns: with the check on replicas and without it, the
order turning round from pair to pair. The first step of a block is left out: threads of gloo's may
still work for the block before. Of each step the CPU time of the process (all threads) is taken;
the ratio of a pair is that of its two medians, and the cost is the median over pairs and ranks,
less one. The CPU time within the check's own functions is counted directly as well, as a share of
the step's: it hardly depends on how steady the machine is, and leaves out what gloo's threads use.
Steps on which the reduction is looked at (one in 32) are counted by themselves and added at that
rate. Replay, and with it the ring audit, is off.
Writes `bench/results/replicas.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch.nn.parallel import DistributedDataParallel

import everybit
from everybit.drill.gpt import GPT, GPTConfig
from everybit.guard.replicas.check import ReplicaCheck
from everybit.guard.replicas.reduction import EVERY

RESULTS = Path(__file__).resolve().parent / "results" / "replicas.json"
WORLD_SIZE = 3
#: Steps of a block.
STEPS = 4
QUIET = {"OMP_WAIT_POLICY": "passive"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=24, help="pairs of blocks")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--worker", type=Path)
    options = parser.parse_args()
    if options.worker is not None:
        work(options)
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, *sys.argv[1:], "--worker", folder]
        ranks = [
            subprocess.Popen(command, env={**os.environ, **QUIET, **launched(rank, port)})
            for rank in range(WORLD_SIZE)
        ]
        codes = [process.wait() for process in ranks]
        if any(codes):
            raise SystemExit(f"ranks ended with {codes}")
        found = [
            json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(WORLD_SIZE)
        ]
    result = summary(options, found)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=1))


def launched(rank: int, port: int) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(WORLD_SIZE),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def summary(options, found) -> dict:
    ratios = [ratio for rank in found for ratio in rank["ratios"]]
    quartiles = statistics.quantiles(ratios, n=4)
    own = statistics.median(share for rank in found for share in rank["own"])
    reduction = statistics.median(share for rank in found for share in rank["reduction"])
    return {
        "torch": torch.__version__,
        "machine": platform.machine(),
        "load": os.getloadavg()[0],
        "ranks": WORLD_SIZE,
        "parameters": found[0]["parameters"],
        "tokens_a_step": options.batch * options.context,
        "pairs": options.pairs,
        "step_cpu_s": round(found[0]["step_s"], 4),
        "cost_percent": round(100 * (statistics.median(ratios) - 1), 2),
        "quartiles_percent": [round(100 * (value - 1), 2) for value in quartiles],
        "own_percent": round(100 * (own + (reduction - own) / EVERY), 3),
        "own_percent_without_reduction": round(100 * own, 3),
        "findings": sum(rank["findings"] for rank in found),
    }


def work(options) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    torch.manual_seed(0)
    model = GPT(
        GPTConfig(layers=options.layers, width=options.width, context=options.context, dropout=0.1)
    )
    wrapped = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(wrapped.parameters())
    torch.manual_seed(100 + rank)
    timed = Timed(ReplicaCheck)
    ratios, own, reduction, bare = [], [], [], []
    folder = options.worker / f"run-{rank}"
    step = 0
    with everybit.Guard(wrapped, optimizer, run=folder, replay_every=0) as guard:
        for number in range(-2, options.pairs):
            medians = {}
            for on in (True, False) if number % 2 else (False, True):
                timed.on, times = on, []
                for place in range(STEPS):
                    timed.spent_s, began = 0.0, time.process_time()
                    tokens = torch.randint(256, (options.batch, options.context + 1))
                    loss = wrapped(tokens[:, :-1], tokens[:, 1:])
                    loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    spent_s = time.process_time() - began
                    looks = step % EVERY == 0
                    step += 1
                    if number < 0:
                        continue  # Warming up.
                    if on:
                        (reduction if looks else own).append(timed.spent_s / spent_s)
                    if place and not looks:
                        times.append(spent_s)
                if times:
                    medians[on] = statistics.median(times)
            if len(medians) == 2:
                ratios.append(medians[True] / medians[False])
                bare.append(medians[False])
    result = {
        "ratios": ratios,
        "own": own,
        "reduction": reduction or own,
        "step_s": statistics.median(bare),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "findings": len(guard.findings),
    }
    (options.worker / f"{rank}.json").write_text(json.dumps(result))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


class Timed:
    """Switches the check on and off, and counts the CPU time of this thread within it."""

    def __init__(self, kind) -> None:
        self.on = True
        self.spent_s = 0.0
        for name in ("__call__", "finish"):
            self._wrap(kind, name)
        wrapped = kind._is_wanted
        kind._is_wanted = lambda check: self.on and wrapped(check)

    def _wrap(self, kind, name: str) -> None:
        function = getattr(kind, name)

        def timed(*args):
            began = time.thread_time()
            try:
                return function(*args)
            finally:
                self.spent_s += time.thread_time() - began

        setattr(kind, name, timed)


if __name__ == "__main__":
    main()

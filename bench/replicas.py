"""What the check on replicas costs: a small GPT under DistributedDataParallel on three gloo ranks.

    python bench/replicas.py [--blocks 12] [--layers 4] [--width 256] [--batch 8]

One guarded run. Blocks of 32 steps take turns: with the check on replicas and without it; the order
within each pair turns round from pair to pair. In each block of 32 every update's digests are shown
to all ranks, and the sums of all gradients are compared before and behind the reduction once.
Replay, and with it the ring audit, is off. Of each block the CPU time of the process (all threads,
those of gloo included) is taken; the cost is the median over pairs and ranks of the ratio of the
two, less one. The time within the check's own functions is counted directly as well: it does not
depend on how steady the machine is, and leaves out what gloo's threads use.
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

RESULTS = Path(__file__).resolve().parent / "results" / "replicas.json"
WORLD_SIZE = 3
#: Steps of a block: in each the reduction is looked at once.
STEPS = 32
QUIET = {"OMP_WAIT_POLICY": "passive"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=12, help="pairs of blocks")
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
    print(json.dumps({k: v for k, v in result.items() if k != "ratios"}, indent=1))


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
    own = [share for rank in found for share in rank["own"]]
    return {
        "torch": torch.__version__,
        "machine": platform.machine(),
        "ranks": WORLD_SIZE,
        "parameters": found[0]["parameters"],
        "tokens_a_step": options.batch * options.context,
        "pairs": options.blocks,
        "steps_a_block": STEPS,
        "cost_percent": round(100 * (statistics.median(ratios) - 1), 3),
        "quartiles_percent": [round(100 * (value - 1), 3) for value in quartiles],
        "own_percent": round(100 * statistics.median(own), 3),
        "comparisons": found[0]["comparisons"],
        "findings": sum(rank["findings"] for rank in found),
        "ratios": [[round(ratio, 5) for ratio in rank["ratios"]] for rank in found],
    }


def work(options) -> None:
    import everybit
    from everybit.drill.gpt import GPT, GPTConfig
    from everybit.guard.replicas.check import ReplicaCheck

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
    times: dict[bool, list[float]] = {True: [], False: []}
    own: list[float] = []
    folder = options.worker / f"run-{rank}"
    with everybit.Guard(wrapped, optimizer, run=folder, replay_every=0) as guard:
        for number in range(-1, options.blocks):
            for on in (True, False) if number % 2 else (False, True):
                timed.on, timed.spent_s = on, 0.0
                began = time.process_time()
                for _ in range(STEPS):
                    tokens = torch.randint(256, (options.batch, options.context + 1))
                    loss = wrapped(tokens[:, :-1], tokens[:, 1:])
                    loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
                spent_s = time.process_time() - began
                if number >= 0:  # The first pair warms up.
                    times[on].append(spent_s)
                    if on:
                        own.append(timed.spent_s / spent_s)
    checked = {item.what: item.count for item in guard.coverage.checked}
    result = {
        "ratios": [a / b for a, b in zip(times[True], times[False], strict=True)],
        "own": own,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "comparisons": {what: count for what, count in checked.items() if "re" in what[:10]}
        | {w: c for w, c in checked.items() if "ranks" in w},
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

"""One process of the tracing benchmark: trains the same GPT under a level, or under a peer.

    python bench/trace_worker.py float32

It reads one request a line from stdin, as JSON, and answers with one line, as bench/guard_worker.py
does.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch

from everybit import open_run
from everybit.guard.trace.schedule import Schedule
from guard_worker import Loop, facts, measure, with_everybit


def with_debug_mode(loop, num_steps):
    """Measure under torch's DebugMode, which hashes what every operation gives."""
    from torch.utils._debug_mode import DebugMode

    seen = []

    def step():
        mode = DebugMode(record_nn_module=True)
        with mode, DebugMode.log_tensor_hashes():
            loop.step()
        seen.append(len(mode.logs))

    seconds = measure(step, num_steps)
    return {**seconds, "observations": seen[-1]}


def with_hooks(loop, num_steps):
    """Measure what people write by hand: norms of each module's output and of its gradient."""
    rows = []

    def hook(_module, _args, output):
        tensors = [output] if isinstance(output, torch.Tensor) else output
        for tensor in tensors:
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                rows.append(tensor.detach().norm().item())
                if tensor.requires_grad:
                    tensor.register_hook(lambda grad: rows.append(grad.norm().item()))

    handles = [module.register_forward_hook(hook) for module in loop.model.modules()]

    def step():
        rows.clear()
        loop.step()
        for parameter in loop.model.parameters():
            rows.append(parameter.grad.norm().item())
            rows.append(parameter.detach().norm().item())

    try:
        seconds = measure(step, num_steps)
    finally:
        for handle in handles:
            handle.remove()
    return {**seconds, "observations": len(rows)}


def answer(loop, request):
    variant, num_steps = request["variant"], request["steps"]
    if variant == "bare":
        return measure(loop.step, num_steps)
    if variant == "debugmode":
        return with_debug_mode(loop, num_steps)
    if variant == "hooks":
        return with_hooks(loop, num_steps)
    if variant != "sums":
        # As far from the first step as most are: without block sums of everything.
        Schedule.everything = property(lambda _: False)
    else:
        Schedule.everything = property(lambda _: True)
    seconds = with_everybit(
        loop, num_steps, request["folder"], request["settings"], timed=request["timed"]
    )
    (log,) = Path(request["folder"]).glob("*.log")
    last = list(open_run(request["folder"]).log().steps())[-1]
    seconds["observations"] = sum(len(table.names) for table in last.tables)
    seconds["bytes"] = log.stat().st_size / (num_steps + 1)
    return seconds


def main():
    out, sys.stdout = sys.stdout, sys.stderr  # nothing else may write between the answers
    loop = Loop()
    loop.step()
    modules = {"modules": sum(1 for _ in loop.model.modules())}
    print(json.dumps(facts(loop) | modules), file=out, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(loop, json.loads(line))), file=out, flush=True)


if __name__ == "__main__":
    main()

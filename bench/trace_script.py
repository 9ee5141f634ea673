"""The loop of the tracing benchmark as a script, for tools that run scripts themselves.

    STEPS=2 OUT=seconds.json PLACES=src:bench python bench/trace_script.py

Writes the CPU and wall seconds a step, after one that is not counted, to OUT as JSON. Modules are
looked for in PLACES: a tool that runs a copy of the script elsewhere may set PYTHONPATH itself.
"""

import json
import os
import sys
import time
from pathlib import Path

import torch

sys.path.extend(os.environ["PLACES"].split(os.pathsep))

from everybit.drill.gpt import GPT
from everybit.drill.text import Batches, standard_library_bytes
from guard_worker import BATCH, CONFIG, CONTEXT


def main():
    torch.manual_seed(0)
    num_steps, out = int(os.environ["STEPS"]), os.environ["OUT"]
    model = GPT(CONFIG)
    optimizer = torch.optim.AdamW(model.parameters())
    batches = Batches(standard_library_bytes(1 << 20), batch=BATCH, context=CONTEXT, seed=0)
    for number in range(num_steps + 1):
        if number == 1:
            cpu, wall = time.process_time(), time.perf_counter()
        optimizer.zero_grad()
        tokens, targets = batches.next()
        loss = model(tokens, targets)
        loss.backward()
        optimizer.step()
    seconds = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
    Path(out).write_text(json.dumps({k: v / num_steps for k, v in seconds.items()}))


if __name__ == "__main__":
    main()

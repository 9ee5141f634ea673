"""One process of the Guard's benchmark: trains the same GPT under whatever it is told to.

    python bench/guard_worker.py float32|bfloat16|sdcguard|ranks

`bfloat16` and `sdcguard` compute under autocast, with a smaller batch. It reads one request a line
from stdin, as JSON, and answers with one line: CPU and wall seconds a step, and the seconds within
the watching code itself. Nothing of everybit but the model and the text is imported for `sdcguard`,
which runs in an environment of its own.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import torch

from everybit.drill.gpt import GPT, GPTConfig
from everybit.drill.text import Batches, standard_library_bytes

CONFIG = GPTConfig(layers=6, width=384, heads=6, context=256, dropout=0.1)
BATCH, CONTEXT = 8, 256
SMALL_BATCH, SMALL_CONTEXT = 2, 64


class Clock:
    """Counts CPU seconds, of all threads, and wall seconds within a function."""

    def __init__(self):
        self.cpu = self.wall = 0.0
        self._depth = 0

    def wrap(self, function):
        @functools.wraps(function)
        def timed(*args, **kwargs):
            if self._depth:
                return function(*args, **kwargs)
            self._depth = 1
            cpu, wall = time.process_time(), time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.cpu += time.process_time() - cpu
                self.wall += time.perf_counter() - wall
                self._depth = 0

        return timed


@contextmanager
def timed_methods(owner, *names):
    """Time methods of a class together; yields the clock."""
    clock, originals = Clock(), {name: getattr(owner, name) for name in names}
    for name, original in originals.items():
        setattr(owner, name, clock.wrap(original))
    try:
        yield clock
    finally:
        for name, original in originals.items():
            setattr(owner, name, original)


class Loop:
    """The training loop, as users write it."""

    def __init__(self, *, data_parallel=False, autocast=False):
        torch.manual_seed(0)
        self.model = GPT(CONFIG)
        self.root = self.model
        if data_parallel:
            self.root = torch.nn.parallel.DistributedDataParallel(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        batch, context = (SMALL_BATCH, SMALL_CONTEXT) if autocast else (BATCH, CONTEXT)
        text = standard_library_bytes(1 << 20)
        self.batches = Batches(text, batch=batch, context=context, seed=0)
        self._autocast = autocast

    def gradients(self):
        self.gradients_of(*self.batches.next())

    def gradients_of(self, tokens, targets):
        self.optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self._autocast):
            loss = self.root(tokens, targets)
        loss.backward()

    def step(self):
        self.step_of(*self.batches.next())

    def step_of(self, tokens, targets):
        self.gradients_of(tokens, targets)
        self.optimizer.step()

    def step_with_isfinite(self):
        self.gradients()
        for parameter in self.model.parameters():
            assert torch.isfinite(parameter.grad).all()
            assert torch.isfinite(parameter).all()
        self.optimizer.step()


def measure(step, num_steps, clock=None):
    """Return seconds a step, after one that is not counted."""
    step()
    if clock is not None:
        clock.cpu = clock.wall = 0.0
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(num_steps):
        step()
    seconds = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
    if clock is not None:
        seconds |= {"own_cpu": clock.cpu, "own_wall": clock.wall}
    return {name: value / num_steps for name, value in seconds.items()}


def with_everybit(loop, num_steps, folder, settings, *, timed, closure=False):
    """Measure under a Guard; the time within it, or within one of its parts, is its own."""
    import everybit
    from everybit.core.config import Config
    from everybit.guard.agreement import Agreement
    from everybit.guard.fence import Fence
    from everybit.guard.record import RecordCheck
    from everybit.guard.replay.check import ReplayCheck
    from everybit.guard.replicas.check import ReplicaCheck

    parts = {
        "guard": (Fence, "__call__"),
        "agreement": (Agreement, "agree"),
        "record": (RecordCheck, "__call__", "finish"),
        "replay": (ReplayCheck, "__call__"),
        "replicas": (ReplicaCheck, "__call__", "finish"),
    }
    config = Config().updated({**settings, "run": folder}, where="bench")
    with timed_methods(*parts[timed]) as clock:
        with everybit.Guard(loop.root, loop.optimizer, config=config) as guard:

            def step():
                if closure:
                    guard.step(loop.step_of, *loop.batches.next())
                else:
                    loop.step()

            seconds = measure(step, num_steps, clock)
        assert not guard.findings, guard.verdict.to_json()
        skipped = [item.what for item in guard.coverage.skipped if item.promised]
        assert not skipped, skipped
    return seconds


def with_sdcguard(loop, num_steps, *, checked):
    """Measure under sdcguard at its defaults: steps that it checks, or those between them."""
    from sdcguard import SDCGuard

    guard = SDCGuard().protect(loop.model)
    number = 0 if checked else 1

    def step():
        with guard.on_step(number):
            loop.gradients()
        loop.optimizer.step()

    try:
        seconds = measure(step, num_steps)
    finally:
        guard.unprotect()
    assert bool(guard.stats["checked"]) is checked, guard.stats
    assert guard.stats["alerts"] == 0, guard.stats
    return {**seconds, "every": guard.every, "checks": guard.stats["checked"] / (num_steps + 1)}


def answer(loop, request):
    variant, num_steps = request["variant"], request["steps"]
    if variant == "bare":
        return measure(loop.step, num_steps)
    if variant == "isfinite":
        return measure(loop.step_with_isfinite, num_steps)
    if variant.startswith("sdcguard"):
        return with_sdcguard(loop, num_steps, checked=variant.endswith("checked step"))
    return with_everybit(
        loop,
        num_steps,
        request["folder"],
        request["settings"],
        timed=request["timed"],
        closure=variant == "closure",
    )


def facts(loop):
    """Return what the table says about the model and the process."""
    state = loop.optimizer.state.values()
    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "parameters": sum(each.numel() for each in loop.model.parameters()),
        "tensors": sum(1 for _ in loop.model.parameters()) + sum(len(each) for each in state),
    }


def main():
    kind = sys.argv[1]
    out, sys.stdout = sys.stdout, sys.stderr  # nothing else may write between the answers
    if kind == "ranks":
        torch.set_num_threads(1)
        torch.distributed.init_process_group("gloo", timeout=timedelta(minutes=10))
    loop = Loop(data_parallel=kind == "ranks", autocast=kind in ("bfloat16", "sdcguard"))
    loop.step()
    print(json.dumps(facts(loop)), file=out, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(loop, json.loads(line))), file=out, flush=True)
    if kind == "ranks":
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()

"""Run scripts, alone or under a Guard, in forks of one process that has imported torch.

    python -m tests.examples.stage < performances.json

Each writes into its folder: `stdout`, `stderr`, `told.json` (exit code, truths, verdict) and
`dump.pt` (losses, and everything that was trained).
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import random
import runpy
import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any


def main() -> None:
    """Perform what stdin asks for."""
    asked = json.load(sys.stdin)
    import torch
    import torch._dynamo
    import torch.distributed
    import torch.nn.parallel

    import everybit
    import everybit.api.report
    import everybit.api.run
    import everybit.guard.guard
    from everybit.host import capture_environment

    torch.set_num_threads(1)
    for name in asked["preload"]:
        importlib.import_module(name)
    # Look at the machine once, and leave torch's own objects out of the search for models.
    known = capture_environment()
    everybit.guard.guard.capture_environment = lambda **_: known  # type: ignore[attr-defined]
    gc.collect()
    gc.freeze()
    for job in asked["jobs"]:
        child = os.fork()
        if not child:
            code = 1
            try:
                _perform(job)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        os.waitpid(child, 0)


def _perform(job: dict[str, Any]) -> None:
    import torch
    from tests.examples.witness import Plan, Witness

    import everybit
    from everybit.core.config import Config

    folder = Path(job["folder"])
    folder.mkdir(parents=True)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.environ.update(job["environment"])
    random.seed(0)  # It is seeded anew in each fork.
    witness = Witness([Plan(**plan) for plan in job["plans"]], kill_behind=job["kill_behind"])
    if job["witnessed"]:
        witness.install()
    told: dict[str, Any] = {"code": 0}
    if job["config"] is None:
        told["code"] = _run_script(job)
    elif job["held"]:
        guard = everybit.Guard(config=Config().updated(job["config"]), run=_run_of(job))
        with guard:
            sys.path.insert(0, str(Path(job["script"]).parent))
            importlib.import_module("checkpoints").BESIDE["guard"] = guard
            told["code"] = _run_script(job)
        told["verdict"] = everybit.api.report.write_verdict(guard.path).to_json()
    else:
        config = Config().updated({**job["config"], "run": _run_of(job)})
        outcome = everybit.run(job["script"], job["args"], config=config)
        told |= {"code": outcome.exit_code, "verdict": outcome.verdict.to_json()}
    told |= {"truths": [asdict(truth) for truth in witness.truths], "updates": witness.updates}
    (folder / "told.json").write_text(json.dumps(told))
    if job["witnessed"]:
        dump = {
            "losses": witness.losses,
            "batches": witness.batches,
            "tensors": witness.everything(),
            "rng": _streams(),
        }
        torch.save(dump, folder / "dump.pt")


def _run_of(job: dict[str, Any]) -> str:
    return str(job["config"].get("run") or Path(job["folder"]) / "run")


def _run_script(job: dict[str, Any]) -> int:
    sys.argv = [job["script"], *job["args"]]
    sys.path.insert(0, str(Path(job["script"]).parent))
    try:
        runpy.run_path(job["script"], run_name="__main__")
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def _streams() -> list[Any]:
    """Return the states in which the script has left the random generators."""
    import numpy as np
    import torch

    facts = np.random.get_state(legacy=False)["state"]
    return [
        torch.get_rng_state(),
        torch.tensor(random.getstate()[1]),
        torch.tensor([*facts["key"].tolist(), facts["pos"]]),
    ]


if __name__ == "__main__":
    main()

"""Run programs that import torch in forks of one process that has imported it: quick to start."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LAUNCHER = """
    import gc, json, os, runpy, signal, sys
    import torch, torch._dynamo, torch.distributed, torch.nn.parallel
    import everybit.api.report, everybit.api.run, everybit.cli.run, everybit.guard

    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()
    asked = json.load(sys.stdin)
    waiting = []

    def finish():
        for job, child in waiting.pop(0):
            with open(job["name"] + ".code", "w") as file:
                file.write(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))

    for together in asked["rounds"]:
        children = []
        for job in together:
            children.append(os.fork())
            if not children[-1]:
                # A shell's background jobs ignore it, and so would what they start.
                signal.signal(signal.SIGINT, signal.default_int_handler)
                for number, name in ((1, "out"), (2, "err")):
                    os.dup2(os.open(job["name"] + "." + name, os.O_WRONLY | os.O_CREAT), number)
                os.environ.update(job["environment"])
                sys.argv = ["everybit", *job["options"], *job["script"]]
                sys.path[0] = os.getcwd()
                if job["options"]:
                    runpy.run_module("everybit", run_name="__main__", alter_sys=True)
                else:
                    sys.argv = job["script"]
                    runpy.run_path(sys.argv[0], run_name="__main__")
                sys.exit(0)
        waiting.append(list(zip(together, children)))
        if len(waiting) == asked["at_once"]:
            finish()
    while waiting:
        finish()
"""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A program to run.

    Attributes:
        name: Its output goes to files of this name.
        script: The script and its arguments.
        options: Arguments of everybit before the script; with none the script runs alone.
        environment: Variables.
    """

    name: str
    script: list[str]
    options: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)


def run_forked(
    place: Path, *rounds: list[Job], at_once: int = 1
) -> dict[str, tuple[int, str, str]]:
    """Run the jobs of each round side by side, round after round.

    Args:
        place: The folder that they run in.
        rounds: Jobs that need each other.
        at_once: Rounds that may run at once, where none needs an earlier one: most of them wait.

    Returns:
        Exit code, stdout and stderr of each, by name.
    """
    (place / "launch.py").write_text(textwrap.dedent(LAUNCHER))
    done = subprocess.run(
        [sys.executable, "launch.py"],
        input=json.dumps(
            {"rounds": [[asdict(job) for job in jobs] for jobs in rounds], "at_once": at_once}
        ),
        cwd=place,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {
        job.name: (
            int((place / f"{job.name}.code").read_text()),
            (place / f"{job.name}.out").read_text(),
            (place / f"{job.name}.err").read_text(),
        )
        for jobs in rounds
        for job in jobs
    }

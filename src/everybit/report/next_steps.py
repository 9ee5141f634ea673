"""How to go on: the commands that a run's verdict suggests, ready to paste."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everybit.report.run_summary import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.verdict import Verdict
    from everybit.report.run_summary import LogSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    """A command and what it is for."""

    command: str
    purpose: str


def suggest_steps(run: str, verdict: Verdict, logs: Sequence[LogSummary]) -> list[NextStep]:
    """Return the commands that help from here, the most useful first.

    Args:
        run: The run folder as the reader names it.
        verdict: The run's verdict.
        logs: Its logs.
    """
    folder = shlex.quote(run)
    steps: list[NextStep] = []
    rules = list(dict.fromkeys(finding.rule for finding in verdict.findings))
    at_rest = any(rule.startswith("MEM6") for rule in rules)
    if at_rest and not _heals(logs):
        steps.append(
            NextStep(
                command=f"{_launcher(logs)} run --on-finding heal {_script(logs)}",
                purpose="Run it again and put the right bits back before they are used"
                ' (in code: `Guard(..., on_finding="heal")`).',
            )
        )
    if at_rest or any(log.state not in (State.CLEAN, State.RUNNING) for log in logs):
        steps.append(
            NextStep(
                command="everybit verify CHECKPOINTS",
                purpose="Test the checkpoints before one of them is resumed from.",
            )
        )
    steps += [
        NextStep(command=f"everybit rule {rule}", purpose="What the finding means.")
        for rule in rules[:4]
    ]
    if any(log.state is State.RUNNING for log in logs):
        steps.append(
            NextStep(command=f"everybit report {folder}", purpose="Look again; it is still going.")
        )
    steps.append(
        NextStep(
            command=f"everybit diff {folder} OTHER_RUN",
            purpose="Find the first value that parts from a run that should be the same.",
        )
    )
    steps.append(
        NextStep(
            command=f"everybit report {folder} --json", purpose="The same verdict for a program."
        )
    )
    return steps


def command_line(logs: Sequence[LogSummary]) -> str:
    """Return the run's own command, quoted for a shell, or nothing."""
    for log in reversed(logs):
        command: Any = log.header.get("command")
        if isinstance(command, list | tuple) and command:
            return shlex.join(str(part) for part in command)
    return ""


def _heals(logs: Sequence[LogSummary]) -> bool:
    configs = [log.header.get("config") for log in logs]
    return any(isinstance(c, Mapping) and c.get("on_finding") == "heal" for c in configs)


def _launcher(logs: Sequence[LogSummary]) -> str:
    many = len({log.rank for log in logs}) > 1
    return "torchrun ... -m everybit" if many else "everybit"


def _script(logs: Sequence[LogSummary]) -> str:
    # What follows the interpreter; options of an earlier `everybit run` stay the reader's business.
    for log in reversed(logs):
        command: Any = log.header.get("command")
        if isinstance(command, list | tuple):
            for index, part in enumerate(command):
                if str(part).endswith(".py"):
                    return shlex.join(str(each) for each in command[index:])
    return "train.py ARGS"

"""How to go on: the commands that a run's verdict suggests, ready to paste."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everybit.report.run_summary import State
from everybit.report.words import Said, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.finding import Finding
    from everybit.core.verdict import Verdict
    from everybit.report.run_summary import LogSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    """A command and what it is for."""

    command: str
    purpose: Said


def suggest_steps(run: str, verdict: Verdict, logs: Sequence[LogSummary]) -> list[NextStep]:
    """Return the commands that help from here, the most useful first.

    Args:
        run: The run folder as the reader names it.
        verdict: The run's verdict.
        logs: Its logs.
    """
    folder = shlex.quote(run)
    steps: list[NextStep] = []
    at_rest = any(finding.rule.startswith("MEM6") for finding in verdict.findings)
    if any(log.paused for log in logs):
        steps.append(NextStep(command=f"everybit release {folder}", purpose=say("next.release")))
    if at_rest and not _heals(logs):
        steps.append(_heal(logs))
    if at_rest or any(log.newest and log.state not in (State.CLEAN, State.RUNNING) for log in logs):
        steps.append(NextStep(command="everybit verify CHECKPOINTS", purpose=say("next.verify")))
    if any(log.state is State.RUNNING for log in logs):
        steps.append(NextStep(command=f"everybit report {folder}", purpose=say("next.again")))
    steps.append(NextStep(command=f"everybit diff {folder} OTHER_RUN", purpose=say("next.diff")))
    steps.append(NextStep(command=f"everybit report {folder} --json", purpose=say("next.json")))
    return steps


def suggest_step(finding: Finding, run: str, logs: Sequence[LogSummary]) -> NextStep:
    """Return the command to go on with from one finding."""
    family, folder = finding.rule[:3], shlex.quote(run)
    if finding.rule.startswith("MEM6") and not _heals(logs):
        return _heal(logs)
    if family == "FIL" and finding.where.path:
        command = f"everybit verify {shlex.quote(finding.where.path)}"
        return NextStep(command=command, purpose=say("next.verify.file"))
    if family == "ENV":
        return NextStep(command="everybit env", purpose=say("next.env"))
    if finding.rule == "RUN151":
        return NextStep(command="everybit verify CHECKPOINTS", purpose=say("next.verify"))
    if family in ("NUM", "CMP", "RNK", "DIF", "DAT"):
        return NextStep(command=f"everybit diff {folder} OTHER_RUN", purpose=say("next.diff"))
    return NextStep(command=f"everybit rule {shlex.quote(finding.rule)}", purpose=say("next.rule"))


def suggest_scene(finding: Finding, run: str) -> NextStep | None:
    """Return how to look at the scene that was kept of a finding; None where none was."""
    scene = finding.evidence.get("scene")
    if not isinstance(scene, str) or not scene:
        return None
    folder = shlex.quote(str(Path(run) / scene))
    code = "import everybit, sys; print(everybit.load_incident(sys.argv[1]))"
    return NextStep(command=f"python -c '{code}' {folder}", purpose=say("next.scene"))


def command_line(logs: Sequence[LogSummary]) -> str:
    """Return the run's own command, quoted for a shell, or nothing."""
    for log in reversed(logs):
        command: Any = log.header.get("command")
        if isinstance(command, list | tuple) and command:
            return shlex.join(str(part) for part in command)
    return ""


def _heal(logs: Sequence[LogSummary]) -> NextStep:
    return NextStep(
        command=f"{_launcher(logs)} run --on-finding heal {_script(logs)}",
        purpose=say("next.heal"),
    )


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

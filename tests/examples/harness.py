"""Perform scripts on the stage and judge what came of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tests.examples.witness import Plan, Truth

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.examples.repertoire import Example

ROOT = Path(__file__).parent.parent.parent

#: Rule of the finding about a flip, by what was hit.
RULES = {"weight": "MEM601", "buffer": "MEM601", "state": "MEM602", "gradient": "MEM603"}


@dataclass(frozen=True, kw_only=True)
class Job:
    """One performance of a script.

    Attributes:
        folder: Where its output goes; must not exist.
        script: Path of the script.
        args: Its arguments.
        config: Settings of the Guard; None for a run without one.
        plans: Flips to plant.
        witnessed: Whether the losses and weights are kept; without, nothing but the Guard is there.
        environment: Variables.
        held: The Guard is the driver's own, and its state goes into the script's checkpoints.
        kill_behind: Checkpoint of the script; it is killed some updates after that was written.
    """

    folder: Path
    script: Path
    args: Sequence[str] = ()
    config: dict[str, Any] | None = None
    plans: Sequence[Plan] = ()
    witnessed: bool = True
    environment: dict[str, str] = field(default_factory=dict)
    held: bool = False
    kill_behind: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self) | {"folder": str(self.folder), "script": str(self.script)}


@dataclass(frozen=True, kw_only=True)
class Performance:
    """How it went.

    Attributes:
        job: What was asked for.
        code: Exit code; None where it crashed outside of the script.
        stdout: What the script said.
        stderr: And beside.
        truths: What was planted.
        verdict: The Guard's verdict, {} without one.
    """

    job: Job
    code: int | None
    stdout: str
    stderr: str
    truths: list[Truth]
    verdict: dict[str, Any]

    @property
    def findings(self) -> list[dict[str, Any]]:
        """All findings."""
        found: list[dict[str, Any]] = self.verdict.get("findings", [])
        return found

    @property
    def trouble(self) -> str:
        """Why it is no performance at all, "" where it went through."""
        return "" if self.code == 0 else f"exit code {self.code}: {self.stderr[-1500:]}"

    @property
    def dump(self) -> dict[str, list[torch.Tensor]]:
        """Losses and everything that was trained."""
        loaded: dict[str, list[torch.Tensor]] = torch.load(
            self.job.folder / "dump.pt", weights_only=True
        )
        return loaded

    def finding_of(self, truth: Truth, slack: int = 0) -> dict[str, Any] | None:
        """Return the finding that names the flip: rule, tensor, element, bit and step."""
        for finding in self.findings:
            where = finding["where"]
            changes = finding.get("evidence", {}).get("changes", [])
            named = where.get("parameter") in (truth.parameter, *truth.names)
            if (
                finding["rule"] == RULES[truth.kind]
                and named
                and (where.get("tensor") or "") == truth.tensor
                and where.get("elements") == [truth.element]
                and [change["bits"] for change in changes] == [[truth.bit]]
                and truth.step <= where["step"] <= truth.step + slack
            ):
                return finding
        return None


def perform(
    jobs: Sequence[Job], *, preload: Sequence[str] = (), timeout_s: float = 600
) -> list[Performance]:
    """Run the jobs one after another in forks of one process."""
    asked = {"jobs": [job.to_json() for job in jobs], "preload": list(preload)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.examples.stage"],
        input=json.dumps(asked),
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return [_read(job) for job in jobs]


def _read(job: Job) -> Performance:
    told_path = job.folder / "told.json"
    told = json.loads(told_path.read_text()) if told_path.exists() else {"code": None}
    return Performance(
        job=job,
        code=told["code"],
        stdout=(job.folder / "stdout").read_text(),
        stderr=(job.folder / "stderr").read_text(),
        truths=[Truth(**truth) for truth in told.get("truths", [])],
        verdict=told.get("verdict", {}),
    )


def problems_alone(example: Example, bare: Performance, clean: Performance) -> list[str]:
    """Return what is wrong with a run under a Guard that nothing was done to.

    Args:
        example: What was run.
        bare: Without a Guard.
        clean: With one.
    """
    problems = [f"{p.job.folder.name}: {p.trouble}" for p in (bare, clean) if p.trouble]
    if problems:
        return problems
    if clean.verdict["status"] != "clean":
        told = [finding["message"] for finding in clean.findings]
        missed = [s for s in clean.verdict["coverage"]["skipped"] if s["promised"]]
        problems.append(f"{clean.verdict['status']}: {told or missed}")
    if not example.timed and bare.stdout != clean.stdout:
        problems.append("it printed something else")
    return problems + differing(bare, clean)


def problems_healed(example: Example, bare: Performance, healed: Performance) -> list[str]:
    """Return what is wrong with a run in which flips were planted and healed."""
    problems = [f"{p.job.folder.name}: {p.trouble}" for p in (bare, healed) if p.trouble]
    if problems:
        return problems
    if len(healed.truths) != len(healed.job.plans):
        problems.append(f"{len(healed.truths)} flips planted of {len(healed.job.plans)}")
    found = []
    for truth in healed.truths:
        finding = healed.finding_of(truth, example.slack)
        if finding is None:
            problems.append(f"missed or misplaced: {truth}")
            continue
        found.append(finding)
        if not finding["evidence"]["healed"] or finding["evidence"]["tainted"]:
            problems.append(f"not healed in time: {finding['message']}")
    problems += [f"false: {f['message']}" for f in healed.findings if f not in found]
    problems += [
        f"not done: {s['what']}: {s['why']}"
        for s in healed.verdict["coverage"]["skipped"]
        if s["promised"]
    ]
    if not example.timed and bare.stdout != healed.stdout:
        problems.append("it printed something else")
    return problems + differing(bare, healed)


def differing(a: Performance, b: Performance) -> list[str]:
    """Return what first differs of batches, losses, weights and random streams."""
    for what in ("batches", "losses", "tensors", "rng"):
        mine, other = a.dump[what], b.dump[what]
        if len(mine) != len(other):
            return [f"{len(mine)} and {len(other)} {what}"]
        for index, (one, two) in enumerate(zip(mine, other, strict=True)):
            if not same_bits(one, two):
                return [f"other bits in {what} {index} of {len(mine)}, {tuple(one.shape)}"]
    return []


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors are the same to the last bit."""
    if a.layout is not torch.strided:
        a, b = a.to_dense(), b.to_dense()
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return (
        a.contiguous()
        .reshape(-1)
        .view(torch.uint8)
        .equal(b.contiguous().reshape(-1).view(torch.uint8))
    )

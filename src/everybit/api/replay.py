"""`everybit.replay`: compute the failing part of a step again, here or on another device."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everybit.core.errors import UsageError
from everybit.core.finding import Certainty, Finding, Location
from everybit.core.link import Link
from everybit.core.rule import rule
from everybit.core.verdict import Checked, Coverage, Skipped, Verdict

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from everybit.guard.capsule import Attempt, Capsule

_MEANING = {
    "right": "every bit is what the repeats gave: the first computation was wrong, and this device"
    " computes it right",
    "near-right": "within rounding of what the repeats gave: the first computation was wrong",
    "found": "every bit is the suspected result: this device errs alike, or the repeats erred",
    "near-found": "within rounding of the suspected result: the repeats erred, not the first",
    "other": "neither result, and float64 does not tell the two apart",
    "varies": "another result each time: this part does not repeat on this device",
}


def replay(
    run: str | os.PathLike[str],
    *,
    step: int | None = None,
    device: str = "cpu",
    times: int = 3,
    import_code: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Verdict:
    """Compute the capsules of a run again, and say what that means for what was found.

    A capsule is the failing part of a model alone, with its weights, inputs and random state, kept
    when a Guard's replay finds a mismatch (CMP701). It holds no pickle and runs none.

    Args:
        run: A run folder, or one capsule in it.
        step: Only the capsules of this step.
        device: Where to compute: `cpu`, `cuda:0` ...
        times: How often.
        import_code: Import the program's own classes that a capsule names. This runs their code.
        progress: Is told what is computed, capsule by capsule.

    Returns:
        The verdict: a finding where this device gives the suspected result, or another one each
        time. `stats["attempts"]` has a line for each capsule.

    Raises:
        PathError: There is no such folder, no capsule, or a damaged one.
        UsageError: The device is not here.
    """
    from everybit.guard.capsule import find_capsules, read_capsule

    began = time.perf_counter()
    _check_device(device)
    if times < 1:
        raise UsageError(f"times = {times}", todo="compute it once at least")
    findings: list[Finding] = []
    skipped: list[Skipped] = []
    attempts: list[dict[str, Any]] = []
    for folder in find_capsules(Path(run), step):
        capsule = read_capsule(folder)
        name = capsule.module or "the model"
        progress(f"{name}, step {capsule.step}")
        attempt = _attempt(capsule, device, times, import_code, skipped, name)
        if attempt is None:
            continue
        meaning = _MEANING[attempt.comparison]
        attempts.append(
            {
                "capsule": folder.name,
                "module": capsule.module,
                "step": capsule.step,
                "rank": capsule.rank,
                "device": attempt.device,
                "times": attempt.times,
                "result": str(attempt.comparison),
                "meaning": meaning,
                "differing": list(attempt.differing),
                "errors": attempt.errors,
                "was": capsule.finding.get("message", ""),
            }
        )
        findings += _judged(capsule, attempt, meaning)
        if attempt.comparison == "other":
            skipped.append(Skipped(what=f"{name} at step {capsule.step}", why=meaning))
    num = sum(each["times"] for each in attempts)
    return Verdict(
        command="replay",
        target=(str(run),),
        findings=tuple(findings),
        coverage=Coverage(
            checked=(Checked(what="computations of a capsule", count=num),) if num else (),
            skipped=tuple(skipped),
        ),
        stats={"attempts": attempts, "seconds": time.perf_counter() - began},
    )


def _attempt(
    capsule: Capsule,
    device: str,
    times: int,
    allow: bool,
    skipped: list[Skipped],
    name: str,
) -> Attempt | None:
    from everybit.guard.capsule import try_capsule
    from everybit.guard.capsule.content import ForeignCodeError

    what = f"{name} at step {capsule.step}"
    try:
        return try_capsule(capsule, device=device, times=times, allow=allow)
    except ForeignCodeError as error:
        why = f"it needs the program's own {error}; --import-code imports that, and runs its code"
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        why = f"its capsule cannot be put together ({type(error).__name__}: {error})"
    except RuntimeError as error:
        why = f"{device} cannot compute it ({str(error).splitlines()[0][:200]})"
    skipped.append(Skipped(what=what, why=why))
    return None


def _judged(capsule: Capsule, attempt: Attempt, meaning: str) -> list[Finding]:
    where = Location(
        step=capsule.step,
        rank=capsule.rank,
        link=Link(str(capsule.finding.get("where", {}).get("link", Link.FORWARD))),
        module=capsule.module,
        device=attempt.device,
    )
    evidence: dict[str, Any] = {
        "result": str(attempt.comparison),
        "times": attempt.times,
        "differing": list(attempt.differing),
    }
    evidence |= {f"error_{side}": value for side, value in attempt.errors.items()}
    name = capsule.module or "the model"
    message = f"{name} of step {capsule.step}, computed on {attempt.device}: {meaning}"
    if attempt.comparison == "varies":
        return [rule("CMP703").finding(message, where=where, evidence=evidence)]
    if attempt.comparison not in ("found", "near-found"):
        return []
    sure = attempt.comparison == "found"
    return [
        rule("CMP701").finding(
            message,
            where=where,
            evidence={**evidence, "verdict": "persistent"},
            certainty=Certainty.PROOF if sure else Certainty.STRONG,
        )
    ]


def _check_device(device: str) -> None:
    import importlib

    torch = importlib.import_module("torch")
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise UsageError(
            f"device {device!r} is not here ({lines[0][:160]})", todo="give cpu, or cuda:0"
        ) from error

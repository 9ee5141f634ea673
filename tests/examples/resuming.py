"""Ten steps, a kill and ten more, on the examples themselves: are they twenty, bit for bit?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from tests.examples.harness import Job, Performance, same_bits

import everybit
import everybit.api.report

if TYPE_CHECKING:
    from pathlib import Path

    from tests.examples.repertoire import Example

STEPS = 20
SAVE_EVERY = 10
#: Scripts with no loop that one could go on with, and why.
NOT_RESUMED = {
    **dict.fromkeys(("evaluate", "serve", "generate"), "it trains nothing"),
    "lookahead": "torch_optimizer's Lookahead has no state_dict that this torch can make",
}
#: Scripts that save in a folder, in the way of their library.
FOLDERS = ("hf_trainer", "lightning_autoencoder", "accelerate_classifier")


@dataclass(frozen=True, kw_only=True)
class Three:
    """One example run straight through, killed, and gone on with.

    Attributes:
        straight: Twenty steps.
        killed: As many, killed a few updates after the checkpoint of step ten.
        resumed: From that checkpoint, in the same run folder.
    """

    straight: Performance
    killed: Performance
    resumed: Performance


def jobs_of(
    example: Example, place: Path, *, held: bool = True, seed: int = 0, trace: str = "step"
) -> list[Job]:
    """Return the three jobs.

    Args:
        example: What is run.
        place: Where the output goes.
        held: A Guard's state is in the checkpoints; else the Guard only watches.
        seed: Of the script.
        trace: How closely the Guard records.
    """
    own = example.name == "guarded_loop"
    ending = "" if example.name in FOLDERS else ".pt"
    jobs = []
    for name in ("straight", "killed", "resumed"):
        half = "half" if name != "straight" else "whole"
        checkpoint = str(place / f"{half}{ending}")
        run = str(place / f"{half}-run")
        args = ["--steps", str(STEPS), "--seed", str(seed), *example.args]
        args += ["--checkpoint", checkpoint, "--save-every", str(SAVE_EVERY)]
        args += ["--run", run] if own else []
        args += ["--resume"] if name == "resumed" else []
        jobs.append(
            Job(
                folder=place / name,
                script=example.path,
                args=args,
                config=None if own else {**example.config, "run": run, "trace": trace},
                held=held and not own,
                kill_behind=checkpoint if name == "killed" else "",
            )
        )
    return jobs


def problems_resumed(example: Example, three: Three) -> list[str]:
    """Return what keeps ten and ten steps from being twenty; nothing where they are."""
    straight, killed, resumed = three.straight, three.killed, three.resumed
    problems = [f"{p.job.folder.name}: {p.trouble}" for p in (straight, resumed) if p.trouble]
    if killed.code is not None:
        problems.append("it was not killed")
    if problems:
        return problems
    whole, rest = straight.dump, resumed.dump
    losses = whole["losses"][-len(rest["losses"]) :]
    if not 0 < len(rest["losses"]) < len(whole["losses"]):
        problems.append(f"{len(rest['losses'])} losses behind the checkpoint")
    elif wrong := [
        at
        for at, pair in enumerate(zip(losses, rest["losses"], strict=True))
        if not same_bits(*pair)
    ]:
        problems.append(f"other losses, first number {wrong[0]} behind the checkpoint")
    if example.name in FOLDERS:
        problems += _differing(whole["tensors"], rest["tensors"], "weights and state")
    else:
        files = [_saved(each) for each in (straight, resumed)]
        problems += _differing(*files, "checkpoint")
    return problems + _differing(whole["rng"], rest["rng"], "random streams")


def told_by_everybit(three: Three) -> dict[str, Any]:
    """Return what everybit says of the resumed run: alone, and beside the straight one."""
    runs = [
        str(performed.job.folder.parent / f"{name}-run")
        for performed, name in ((three.straight, "whole"), (three.resumed, "half"))
    ]
    verdict = everybit.diff(*runs)
    first = verdict.first
    found = everybit.api.report.verdict_of_run(everybit.open_run(runs[1])).findings
    return {
        "diff": str(verdict.status),
        "first": None
        if first is None
        else {
            "kind": str(first.kind),
            "step": first.where.step,
            "link": str(first.where.link),
            "why": first.why,
        },
        "findings": [
            f"{each.rule} {each.severity}: {each.message}"
            for each in found
            if each.rule != "RUN151"  # The kill itself.
        ],
    }


def _saved(performance: Performance) -> Any:
    args = list(performance.job.args)
    state = torch.load(args[args.index("--checkpoint") + 1], weights_only=True)
    return {name: value for name, value in state.items() if name != "guard"}


def _differing(a: Any, b: Any, what: str) -> list[str]:
    """Return the first place at which two nested values differ."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return [] if same_bits(a, b) else [f"other bits in {what}"]
    if isinstance(a, dict) and isinstance(b, dict):
        if a.keys() != b.keys():
            return [f"other keys in {what}: {sorted(map(str, a.keys() ^ b.keys()))}"]
        pairs = [(a[key], b[key], f"{what}.{key}") for key in a]
    elif isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        if len(a) != len(b):
            return [f"{len(a)} and {len(b)} values in {what}"]
        pairs = [(x, y, f"{what}.{at}") for at, (x, y) in enumerate(zip(a, b, strict=True))]
    else:
        return [] if a == b or (a != a and b != b) else [f"{a} and {b} in {what}"]
    return next((wrong for pair in pairs if (wrong := _differing(*pair))), [])

"""A drill on a user's script: survey it, plan the trials, run each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from everybit.api.program import find_program
from everybit.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.drill.executor import Executor
    from everybit.drill.plan import Plan

_COMMAND: Final = (sys.executable, "-m", "everybit.api.drilled")


def prepare(
    target: str,
    args: Sequence[str],
    *,
    faults: int,
    seed: int,
    workers: int,
    steps: int,
    sites: Sequence[str],
    dtypes: Sequence[str],
    ranks: int,
    folder: Path,
) -> tuple[Plan, Executor]:
    """Train the script undisturbed, twice, and plan a drill on what was seen.

    With `ranks` above 1 it is so many processes each time, as `torchrun` would start them. `folder`
    is one for files that the workers read.

    Raises:
        PathError: The script cannot be read.
        UsageError: It is no script, does not train, or trains otherwise the second time: what a
            fault does to a training that does not repeat cannot be told.
    """
    from everybit.drill.executor import LocalProcesses
    from everybit.drill.plan import plan_script
    from everybit.drill.trial import RANKED, Site
    from everybit.drill.trying import SETTINGS

    find_program(target, module=False)
    spec = {"target": target, "args": list(args), "steps": steps, "ranks": ranks}
    asked = folder / "spec.json"
    asked.write_text(json.dumps(spec), encoding="utf-8")
    clean = _survey(target, asked, folder / "survey.json")
    _check_trains(target, clean)
    _check_repeats(target, clean, _survey(target, asked, folder / "again.json"))
    if ranks > 1:
        clean["sites"] += [str(site) for site in RANKED]
    found = [Site(name) for name in clean["sites"] if not sites or name in sites]
    chosen = [name for name in clean["dtypes"] if not dtypes or name in dtypes]
    if not found or not chosen:
        raise UsageError(
            "it has none of what is to be struck",
            where=target,
            todo=f"it has {', '.join(clean['sites'])} of {', '.join(clean['dtypes'])}",
        )
    plan = plan_script(
        name=Path(target).name,
        dtypes=chosen,
        sites=[Site.CLEAN, *found],
        faults=faults,
        seed=seed,
        steps=min(steps, len(clean["words"])),
        settings=SETTINGS,
        ranks=ranks,
    )
    asked.write_text(json.dumps({**spec, "clean": clean, "settings": SETTINGS}), encoding="utf-8")
    return plan, LocalProcesses(workers, command=(*_COMMAND, str(asked)))


def _survey(target: str, asked: Path, out: Path) -> dict[str, Any]:
    from everybit.drill.executor import worker_environment

    # As the trials run: with other threads it would have other bits.
    done = subprocess.run(
        [*_COMMAND, asked, out],
        capture_output=True,
        text=True,
        check=False,
        env=worker_environment(),
    )
    if not out.exists():
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise UsageError(
            f"its training ended badly ({last[0][:200]})",
            where=target,
            todo="run it with `python` first",
        )
    told: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return told


def _check_trains(target: str, clean: dict[str, Any]) -> None:
    if clean["raised"]:
        raise UsageError(
            f"it ends with an error of its own ({clean['raised']})",
            where=target,
            todo="run it with `python` first",
        )
    if not clean["words"]:
        raise UsageError(
            "no update of an optimizer was seen",
            where=target,
            todo="name a script that trains in its own process",
        )


def _check_repeats(target: str, clean: dict[str, Any], again: dict[str, Any]) -> None:
    one, two = (each.get("by_rank", [each["words"]]) for each in (clean, again))
    if one != two:
        pairs = zip(zip(*one, strict=False), zip(*two, strict=False), strict=False)
        step = next((i for i, (a, b) in enumerate(pairs) if a != b), len(clean["words"]))
        raise UsageError(
            f"it does not repeat: run twice, step {step} has other bits",
            where=target,
            todo="set its seeds; `everybit run --preflight` names what does not repeat",
        )

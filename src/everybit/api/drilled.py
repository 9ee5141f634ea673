"""A process of a drill on a script: `python -m everybit.api.drilled SPEC [SURVEY]`.

SPEC is a JSON file that says what to run. With SURVEY the script is trained undisturbed, and SURVEY
becomes a JSON file of what was seen. Without, this is a worker that answers trials, each in a child
of its own. What the script prints goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.core.finding import Finding
    from everybit.drill.script import ScriptTraining
    from everybit.drill.trial import Outcome, Trial


def main() -> None:
    """Answer one survey, or trials until stdin ends."""
    spec = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    if len(sys.argv) > 2:
        os.dup2(2, 1)
        Path(sys.argv[2]).write_text(json.dumps(_survey(spec)), encoding="utf-8")
        return
    import everybit.drill.script  # noqa: F401 - what every child needs, once
    from everybit.drill.executor import answer_lines
    from everybit.drill.ranked import preload

    preload()
    answer_lines(lambda trial: _in_child(spec, trial))


def _in_child(spec: Mapping[str, Any], trial: Trial) -> Outcome:
    """Run the script in a child that has everything imported already; in several, with ranks."""
    if trial.ranks > 1:
        return _in_ranks(spec, trial)
    from everybit.drill.executor import ended
    from everybit.drill.trial import Outcome

    with tempfile.TemporaryDirectory(prefix="everybit-drill-") as folder:
        out = Path(folder) / "outcome.json"
        child = os.fork()
        if child == 0:
            status = 1
            try:
                told = _try(spec, trial).to_json()
                out.write_text(json.dumps(told), encoding="utf-8")
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        _, how = os.waitpid(child, 0)
        if not out.exists():
            return ended(trial, os.waitstatus_to_exitcode(how), [])
        return Outcome.from_json(json.loads(out.read_text(encoding="utf-8")))


def _in_ranks(spec: Mapping[str, Any], trial: Trial) -> Outcome:
    """Run the script as several ranks, of which one is struck."""
    from everybit.drill.ranked import judge_ranks
    from everybit.drill.ranks import RanksFailedError, in_ranks
    from everybit.drill.trial import Fate, Outcome

    try:
        told = in_ranks(trial.ranks, lambda rank: _try_as(spec, trial, rank))
    except RanksFailedError as error:
        return Outcome(trial=trial, fate=Fate.UNTRIED, detail=str(error))
    clean = spec["clean"]
    words = [hash(tuple(step)) for step in zip(*clean["by_rank"], strict=False)]
    return judge_ranks(trial, told, {**clean, "words": words})


def _try_as(spec: Mapping[str, Any], trial: Trial, rank: int) -> dict[str, Any]:
    """Train under a Guard as one rank, with the trial's fault where it is the one struck."""
    import logging

    from everybit.core.config import Config
    from everybit.drill.rank_faults import Beneath, struck_rank
    from everybit.drill.ranked import told_of
    from everybit.drill.script import ScriptTraining, computed_of
    from everybit.drill.trial import RANKED, Site
    from everybit.guard import Guard

    logging.getLogger("everybit").setLevel(logging.CRITICAL)
    if trial.site not in RANKED and rank != struck_rank(trial):
        trial = replace(trial, site=Site.CLEAN)
    computed = computed_of(spec["clean"]["computed"])
    with tempfile.TemporaryDirectory(prefix="everybit-drill-") as folder, Beneath() as beneath:
        training = ScriptTraining(spec["steps"], trial, computed, rank=rank, beneath=beneath)
        guard = Guard(run=Path(folder) / "run", config=Config().updated(spec["settings"]))
        with guard:
            raised = _run(spec, training)
    planted = training.planted
    return told_of(
        guard.findings,
        training.trained,
        truth=planted.truth if planted else (),
        absent=planted.absent if planted else "",
        raised=raised,
    )


def _survey(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Train undisturbed and without a Guard; with ranks, return what the first one saw."""
    if spec.get("ranks", 1) == 1:
        return _survey_one(spec)
    from everybit.drill.ranks import RanksFailedError, in_ranks

    try:
        told = in_ranks(spec["ranks"], lambda _: _survey_one(spec))
    except RanksFailedError as error:
        return {"raised": str(error), "words": []}
    raised = next((one["raised"] for one in told if one["raised"]), "")
    return {**told[0], "raised": raised, "by_rank": [one["words"] for one in told]}


def _survey_one(spec: Mapping[str, Any]) -> dict[str, Any]:
    from everybit.drill.script import ScriptTraining

    training = ScriptTraining(spec["steps"])
    raised = _run(spec, training)
    trained = training.trained
    return {
        **training.survey(),
        "words": trained.words,
        "loss": trained.loss,
        "seconds": trained.seconds,
        "raised": raised,
    }


def _try(spec: Mapping[str, Any], trial: Trial) -> Outcome:
    """Train under a Guard, with the trial's fault."""
    import logging

    from everybit.core.config import Config
    from everybit.drill.script import ScriptTraining, computed_of
    from everybit.guard import Guard

    logging.getLogger("everybit").setLevel(logging.CRITICAL)
    clean = spec["clean"]
    training = ScriptTraining(spec["steps"], trial, computed_of(clean["computed"]))
    with tempfile.TemporaryDirectory(prefix="everybit-drill-") as folder:
        config = Config().updated(spec["settings"])
        guard = Guard(run=Path(folder) / "run", config=config)
        with guard:
            raised = _run(spec, training)
    return _outcome(trial, training, guard.findings, raised, clean)


def _outcome(
    trial: Trial,
    training: ScriptTraining,
    findings: tuple[Finding, ...],
    raised: str,
    clean: Mapping[str, Any],
) -> Outcome:
    from everybit.drill.judging import outcome_of, outcome_of_clean
    from everybit.drill.trial import Site

    trained = training.trained
    if trial.site is not Site.CLEAN:
        planted = training.planted
        return outcome_of(
            trial,
            findings,
            truth=planted.truth if planted else [],
            trained=trained,
            clean_words=clean["words"],
            clean_loss=clean["loss"],
            raised=raised,
            absent=planted.absent if planted else "no optimizer was built",
        )
    return outcome_of_clean(
        trial,
        findings,
        trained=trained,
        clean_words=clean["words"],
        clean_loss=clean["loss"],
        bare_seconds=clean["seconds"],
        raised=raised,
    )


def _run(spec: Mapping[str, Any], training: ScriptTraining) -> str:
    """Run the script under `training`; return the error that ended it, or nothing."""
    from everybit.api.program import find_program
    from everybit.drill.script import EnoughError

    program = find_program(spec["target"], module=False)
    try:
        with program.in_place(list(spec["args"])), training:
            program.execute()
    except EnoughError:
        return ""
    except SystemExit as end:
        return "" if end.code in (None, 0) else f"it exits with {end.code}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"[:200]
    return ""


if __name__ == "__main__":
    main()

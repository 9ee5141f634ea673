"""Carry out one trial: train under a Guard, break something, and judge what was said."""

from __future__ import annotations

import logging
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everybit.core.config import Config, OnFinding
from everybit.drill.checkpoint_file import try_file
from everybit.drill.judging import outcome_of, outcome_of_clean
from everybit.drill.planting import Planted
from everybit.drill.subjects import Training, build
from everybit.drill.training_run import STEPS, Trained, reference, train
from everybit.drill.trial import Outcome, Site, Trial
from everybit.guard import Guard
from everybit.probe.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from everybit.core.finding import Finding

#: What the Guard of a drill is set to: every check that is exact, at every step.
SETTINGS: dict[str, Any] = {
    "every": 1,
    "replay_every": 1,
    "on_finding": "heal",
    "shadow": True,
    "incident_mb": 0,
}
#: The same where each step goes through the closure form, and what is found is undone.
CLOSURE: dict[str, Any] = {**SETTINGS, "on_finding": "rewind"}


def run_trial(trial: Trial, settings: Mapping[str, Any] = SETTINGS) -> Outcome:
    """Carry out a trial on a built-in subject, on one thread.

    Args:
        trial: What to try.
        settings: Of the Guard, over its defaults; files and variables are not looked at.
    """
    with _quiet():
        if trial.site is Site.CHECKPOINT:
            return try_file(trial)
        if trial.site is Site.CLEAN:
            return _clean(trial, settings)
        return _broken(trial, settings)


def _clean(trial: Trial, settings: Mapping[str, Any]) -> Outcome:
    bare = train(build(trial.subject, trial.dtype, trial.seed), trial.step)
    guarded, findings = _guarded(trial, settings, trial.step, build_seed=trial.seed)
    return outcome_of_clean(
        trial,
        findings,
        trained=guarded,
        clean_words=bare.words,
        clean_loss=bare.loss,
        bare_seconds=bare.seconds,
    )


def _broken(trial: Trial, settings: Mapping[str, Any]) -> Outcome:
    clean = reference(trial.subject, trial.dtype)
    raised = ""
    planted: list[Planted] = []
    findings: Sequence[Finding] = ()
    trained = Trained()

    def plant(training: Training, count: Callable[[], int]) -> Planted:
        planted.append(
            Planted(trial, training.model, training.optimizer, clean.computed, count=count)
        )
        return planted[0]

    try:
        trained, findings = _guarded(trial, settings, STEPS, plant=plant)
    except _Raised as error:
        trained, findings, raised = error.trained, error.findings, error.told
    (one,) = planted
    return outcome_of(
        trial,
        findings,
        truth=one.truth,
        trained=trained,
        clean_words=clean.run.words,
        clean_loss=clean.run.loss,
        raised=raised,
        absent=one.absent,
    )


class _Raised(Exception):  # noqa: N818 - it carries what was there when an error came
    def __init__(self, trained: Trained, findings: Sequence[Finding], told: str) -> None:
        super().__init__(told)
        self.trained = trained
        self.findings = findings
        self.told = told


def _guarded(
    trial: Trial,
    settings: Mapping[str, Any],
    steps: int,
    *,
    plant: Callable[[Training, Callable[[], int]], Planted] | None = None,
    build_seed: int = 0,
) -> tuple[Trained, Sequence[Finding]]:
    """Train under a Guard; raises `_Raised` where the training ended with an error."""
    training = build(trial.subject, trial.dtype, build_seed)
    config = Config().updated(settings)
    trained = Trained()
    told = ""
    with tempfile.TemporaryDirectory(prefix="everybit-drill-", dir=_fast()) as folder:
        guard = Guard(training.model, training.optimizer, run=Path(folder) / "run", config=config)
        # A step that is computed again is still that step.
        planted = plant(training, lambda: int(guard.step)) if plant else None
        through = guard.step if config.on_finding is OnFinding.REWIND else None
        try:
            with guard:
                if planted is None:
                    train(training, steps, into=trained, through=through)
                else:
                    with planted:
                        train(training, steps, planted.before_step, into=trained, through=through)
        except Exception as error:
            told = f"{type(error).__name__}: {error}"[:200]
    if told:
        raise _Raised(trained, guard.findings, told)
    return trained, guard.findings


def _fast() -> str | None:
    """A folder in memory, where there is one: a drill writes hundreds of small runs."""
    memory = Path("/dev/shm")
    return str(memory) if memory.is_dir() else None


@contextmanager
def _quiet() -> Iterator[None]:
    """One thread, and no word of what the Guard finds: the outcome tells it."""
    logger = logging.getLogger("everybit")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with one_thread():
            yield
    finally:
        logger.setLevel(level)

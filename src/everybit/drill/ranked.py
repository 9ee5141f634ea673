"""Carry out a trial on several ranks: a built-in model under DistributedDataParallel over gloo."""

from __future__ import annotations

import gc
import importlib
import logging
import tempfile
import warnings
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from everybit.core.config import Config
from everybit.core.finding import Finding
from everybit.drill.judging import outcome_of, outcome_of_clean
from everybit.drill.rank_faults import Beneath, RankFault, struck_rank
from everybit.drill.ranks import RanksFailedError, in_ranks
from everybit.drill.subjects import Training, build
from everybit.drill.training_run import STEPS, Trained, train
from everybit.drill.trial import Fate, Outcome, Site, Trial
from everybit.guard import Guard
from everybit.inject import ComputedTarget, list_computed_targets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from everybit.core.change import Change
    from everybit.core.finding import Location

    Truth = Sequence[tuple[Location, tuple[Change, ...]]]


def run_ranked(trial: Trial, settings: Mapping[str, Any]) -> Outcome:
    """Carry out a trial in forked ranks, and judge what all of them have said.

    Args:
        trial: What to try.
        settings: Of the Guard.
    """
    steps = trial.step if trial.site is Site.CLEAN else STEPS
    try:
        clean = _reference(trial.subject, trial.dtype, trial.ranks, steps)
        told = in_ranks(trial.ranks, lambda rank: _guarded(trial, settings, steps, rank))
    except RanksFailedError as error:
        return Outcome(trial=trial, fate=Fate.UNTRIED, detail=str(error))
    return judge_ranks(trial, told, clean)


def judge_ranks(
    trial: Trial, told: Sequence[Mapping[str, Any]], clean: Mapping[str, Any]
) -> Outcome:
    """Return what became of a fault, from what each rank has told.

    Args:
        trial: What was tried.
        told: Of each rank: `findings`, `truth`, `words`, `loss`, `seconds`, `raised`, `absent`.
        clean: `words`, `loss` and `seconds` of the undisturbed run.
    """
    struck = told[struck_rank(trial)]
    findings = [Finding.from_json(each) for one in told for each in one["findings"]]
    findings.sort(key=lambda each: each.where.step or 0)
    words = [hash(tuple(step)) for step in zip(*(one["words"] for one in told), strict=False)]
    trained = Trained(losses=[], words=words, seconds=max(one["seconds"] for one in told))
    if struck["loss"] is not None:
        trained.losses.append(struck["loss"])
    raised = next((one["raised"] for one in told if one["raised"]), "")
    if trial.site is Site.CLEAN:
        return outcome_of_clean(
            trial,
            findings,
            trained=trained,
            clean_words=clean["words"],
            clean_loss=clean["loss"],
            bare_seconds=clean["seconds"],
            raised=raised,
        )
    return outcome_of(
        trial,
        findings,
        truth=_truth(struck["truth"]),
        trained=trained,
        clean_words=clean["words"],
        clean_loss=clean["loss"],
        raised=raised,
        absent=struck["absent"],
    )


def told_of(
    findings: Sequence[Finding], trained: Trained, *, truth: Truth, absent: str, raised: str
) -> dict[str, Any]:
    """Return what one rank tells of a trial, as JSON can hold it."""
    return {
        "findings": [each.to_json() for each in findings],
        "truth": plain_truth(truth),
        "absent": absent,
        "words": trained.words,
        "loss": trained.loss,
        "seconds": trained.seconds,
        "raised": raised,
    }


def plain_truth(truth: Truth) -> list[Any]:
    """Return the truth about a fault as JSON can hold it."""
    return [[where.to_json(), [change.element for change in changes]] for where, changes in truth]


def _truth(plain: Sequence[Any]) -> Truth:
    from everybit.core.change import Change
    from everybit.core.finding import Location

    return [
        (
            Location.from_json(where),
            tuple(Change(element=e, before=0, after=0, bits=()) for e in hit),
        )
        for where, hit in plain
    ]


@lru_cache(maxsize=16)
def _reference(subject: str, dtype: str, world_size: int, steps: int) -> Mapping[str, Any]:
    """Train undisturbed, without a Guard, on as many ranks."""

    def bare(rank: int) -> Mapping[str, Any]:
        training = _build(subject, dtype, rank)
        trained = train(training, steps)
        torch.distributed.destroy_process_group()
        return {"words": trained.words, "loss": trained.loss, "seconds": trained.seconds}

    told = in_ranks(world_size, bare)
    return {
        "words": [hash(tuple(step)) for step in zip(*(one["words"] for one in told), strict=True)],
        "loss": told[0]["loss"],
        "seconds": max(one["seconds"] for one in told),
    }


def _build(subject: str, dtype: str, rank: int) -> Training:
    """Return a training whose model is the same on all ranks, and whose batches are not."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    training = build(subject, dtype, wrap=_wrapped, rank=rank)
    torch.manual_seed(100 + rank)
    return training


def preload() -> None:
    """Import what optimizers and wrappers import when they are made: once, not in each child.

    What there is so far is taken out of the garbage collector's sight: a Guard that looks for
    optimizers among all objects, in each child, finds none there.
    """
    for name in ("torch._dynamo", "torch.nn.parallel.distributed", "torch.distributed"):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def _wrapped(model: torch.nn.Module) -> torch.nn.Module:
    # Buffers are not sent: what each rank has is its own doing.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return torch.nn.parallel.DistributedDataParallel(model, broadcast_buffers=False)


def _guarded(trial: Trial, settings: Mapping[str, Any], steps: int, rank: int) -> dict[str, Any]:
    logging.getLogger("everybit").setLevel(logging.CRITICAL)
    training = _build(trial.subject, trial.dtype, rank)
    trained, raised, absent = Trained(), "", ""
    truth: Truth = ()
    with tempfile.TemporaryDirectory(prefix="everybit-drill-") as folder:
        config = Config().updated(settings)
        guard = Guard(training.model, training.optimizer, run=Path(folder) / "run", config=config)

        def count() -> int:
            return int(guard.step)

        try:
            with Beneath() as beneath, guard:
                if trial.site is Site.CLEAN:
                    train(training, steps, into=trained)
                else:
                    computed = _computed(trial, rank)
                    with RankFault(
                        trial,
                        training.model,
                        training.optimizer,
                        computed,
                        count=count,
                        rank=rank,
                        beneath=beneath,
                    ) as fault:
                        train(training, steps, into=trained)
                    truth, absent = fault.truth, fault.absent
        except Exception as error:
            raised = f"{type(error).__name__}: {error}"[:200]
    if not raised:
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
    return told_of(guard.findings, trained, truth=truth, absent=absent, raised=raised)


def _computed(trial: Trial, rank: int) -> list[ComputedTarget]:
    """Return what the model computes, from a model of its own."""
    other = build(trial.subject, trial.dtype)
    batch = other.batch()
    found = list_computed_targets(other.model, lambda: other.loss_backward(*batch))
    torch.manual_seed(100 + rank)
    return found

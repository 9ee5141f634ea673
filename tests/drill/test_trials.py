"""Trials: each fault lands where it should, the Guard's word is held against the truth."""

from __future__ import annotations

import dataclasses

import pytest

from everybit.core.fault import Pattern
from everybit.core.finding import Certainty, Finding, Location, Severity
from everybit.drill import trying
from everybit.drill.judging import outcome_of
from everybit.drill.plan import plan_builtin
from everybit.drill.subjects import DTYPES, SUBJECTS, build
from everybit.drill.training_run import Trained, reference, train
from everybit.drill.trial import RANKED, SHAPES, Fate, Outcome, Shape, Site, Trial
from everybit.drill.trying import CLOSURE, SETTINGS, run_trial


def trial(site: Site, shape: Shape = Shape.FLIP, **more) -> Trial:
    fields = {"subject": "mlp", "dtype": "float32", "step": 3, "seed": 5, "index": 0}
    return Trial(site=site, shape=shape, **{**fields, **more})


@pytest.mark.parametrize("subject", SUBJECTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_subjects_repeat_bit_for_bit(subject, dtype) -> None:
    first, second = (train(build(subject, dtype, 3), 3) for _ in range(2))
    assert first.words == second.words
    assert first.loss is not None
    assert train(build(subject, dtype, 4), 3).words != first.words


@pytest.mark.parametrize(
    ("site", "rule"),
    [(Site.WEIGHT, "MEM601"), (Site.MOMENT, "MEM602"), (Site.GRADIENT, "MEM603")],
)
@pytest.mark.parametrize("shape", [Shape.FLIP, Shape.STRIDED_16])
def test_faults_in_memory_are_caught_placed_and_healed(site, rule, shape) -> None:
    outcome = run_trial(trial(site, shape))
    assert outcome.fate is Fate.CAUGHT
    assert outcome.rules == (rule,)
    assert (outcome.steps_after, outcome.placed, outcome.exact) == (0, True, True)
    assert outcome.same_end
    assert outcome.num_elements == (16 if shape is Shape.STRIDED_16 else 1)
    assert Outcome.from_json(outcome.to_json()) == outcome


@pytest.mark.parametrize(
    "site", [Site.ACTIVATION, Site.INPUT_GRADIENT, Site.PARAMETER_GRADIENT, Site.SAVED]
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_wrong_results_are_caught_by_replay_and_placed(site, dtype) -> None:
    outcome = run_trial(trial(site, Shape.TILE, dtype=dtype, subject="gpt"))
    assert outcome.fate is Fate.CAUGHT
    assert "CMP701" in outcome.rules
    assert (outcome.steps_after, outcome.placed) == (0, True)


@pytest.mark.parametrize("site", [Site.MOMENT, Site.ACTIVATION, Site.PARAMETER_GRADIENT, Site.RNG])
def test_in_the_closure_form_what_is_caught_is_undone(site) -> None:
    outcome = run_trial(trial(site, subject="lstm"), CLOSURE)
    assert outcome.fate is Fate.CAUGHT
    assert outcome.same_end


def test_without_replay_a_wrong_result_is_missed_and_told_so() -> None:
    outcome = run_trial(trial(Site.ACTIVATION), {**SETTINGS, "replay_every": 0, "numerics": False})
    assert outcome.fate is Fate.MISSED
    assert outcome.rules == ()
    assert not outcome.same_end


def test_a_clean_trial_has_no_alarm_and_the_bits_of_the_bare_run() -> None:
    outcome = run_trial(trial(Site.CLEAN, Shape.NONE, step=6))
    assert (outcome.fate, outcome.steps, outcome.rules) == (Fate.CLEAN, 6, ())
    assert outcome.bare_seconds


def test_an_error_of_the_training_is_an_outcome(monkeypatch) -> None:
    # A wrong token id is outside of the embedding.
    outcome = run_trial(trial(Site.BATCH, Shape.STRAY_WRITE, subject="lstm"))
    assert (outcome.fate, outcome.rules[0]) == (Fate.CAUGHT, "DAT412")
    assert outcome.detail.startswith("IndexError")


def test_a_damaged_checkpoint_is_caught() -> None:
    for shape in SHAPES[Site.CHECKPOINT]:
        outcome = run_trial(trial(Site.CHECKPOINT, shape))
        assert (outcome.fate, outcome.placed) == (Fate.CAUGHT, True)
        assert outcome.rules[0] == "FIL102"


def test_what_cannot_be_is_absent() -> None:
    outcome = run_trial(trial(Site.BUFFER))  # this model has none
    assert outcome.fate is Fate.ABSENT
    assert "no buffer" in outcome.detail


def test_an_alarm_on_a_clean_run_is_told(monkeypatch) -> None:
    guarded = trying._guarded

    def alarmed(*args, **kwargs):
        trained, _ = guarded(*args, **kwargs)
        return trained, (finding(),)

    monkeypatch.setattr(trying, "_guarded", alarmed)
    assert run_trial(trial(Site.CLEAN, Shape.NONE, step=3)).fate is Fate.ALARM


def finding(**where) -> Finding:
    return Finding(
        rule="CMP701",
        slug="compute-mismatch",
        severity=Severity.ERROR,
        certainty=Certainty.PROOF,
        message="m",
        where=Location(step=4, **where),
        evidence={},
        remedy="r",
    )


@pytest.mark.parametrize(
    ("said", "placed"),
    [
        ({"module": "0"}, True),
        ({"module": "1"}, False),
        ({"parameter": "0.weight"}, True),
        ({"parameter": "0.bias"}, False),
        ({}, False),
    ],
)
def test_a_place_is_right_only_where_it_names_what_was_hit(said, placed) -> None:
    where = Location(step=3, module="0", parameter="0.weight")
    outcome = outcome_of(
        trial(Site.PARAMETER_GRADIENT),
        [finding(**said)],
        truth=[(where, ())],
        trained=Trained(losses=[1.0], words=[1, 3]),
        clean_words=[1, 2],
        clean_loss=2.0,
        raised="",
        absent="",
    )
    assert (outcome.fate, outcome.placed, outcome.steps_after) == (Fate.CAUGHT, placed, 1)
    assert not outcome.same_end


def test_a_plan_follows_from_its_seed() -> None:
    first, again, other = (
        plan_builtin(faults=2, seed=seed, settings=SETTINGS) for seed in (1, 1, 2)
    )
    assert first.digest == again.digest != other.digest
    assert len({t.key for t in first.trials}) == len(first.trials)
    cells = {(t.site, t.dtype, t.shape) for t in first.trials}
    dtypes = {site: 1 if site in RANKED else 3 for site in SHAPES}
    assert len(cells) == sum(dtypes[site] * len(shapes) for site, shapes in SHAPES.items())
    for one in first.trials:
        assert Trial.from_json(one.to_json()) == one
        assert isinstance(one.shape.pattern, Pattern)
    assert {t.subject for t in first.trials if t.site is Site.BUFFER} == {"gpt", "cnn"}


def test_the_reference_is_what_a_bare_run_is() -> None:
    clean = reference("lstm", "float32")
    assert clean.run.words == train(build("lstm", "float32"), 12).words
    assert {t.module for t in clean.computed} >= {"embed", "rnn", "head"}
    assert all(dataclasses.is_dataclass(t) for t in clean.computed)

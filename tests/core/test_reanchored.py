"""What follows from computing one step again: noise, damage, settings, or nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from everybit.core.divergence import DivergenceKind as Kind
from everybit.core.finding import Certainty
from everybit.core.reanchored import How, Reanchored, judge_reanchored

OTHER = Reanchored(
    how=How.COMPUTED,
    step=3,
    op="aten.addmm.default",
    module="fc",
    same_settings=False,
    explained=False,
    repeats=True,
    num_elements=1000,
    num_differing=800,
    relative=2e-7,
    band=2e-7,
    ratio=1.1,
    ratio_largest=1.3,
)


def _kind(found: Reanchored) -> tuple[Kind, Certainty]:
    kind, certainty, why = judge_reanchored(found)
    assert why
    return kind, certainty


def test_bits_that_the_other_settings_give_exactly_are_noise() -> None:
    assert _kind(replace(OTHER, explained=True)) == (Kind.NOISE, Certainty.PROOF)


def test_another_result_under_the_same_settings_is_corruption_however_small() -> None:
    assert _kind(replace(OTHER, same_settings=True)) == (Kind.CORRUPTION, Certainty.PROOF)


def test_inside_the_band_under_other_settings_that_do_not_explain_it_is_unknown() -> None:
    assert _kind(OTHER)[0] is Kind.UNKNOWN


def test_within_the_band_of_a_machine_that_is_not_here_is_noise_only_if_broad() -> None:
    there = replace(OTHER, explained=None)
    assert _kind(there) == (Kind.NOISE, Certainty.STRONG)
    assert _kind(replace(there, num_differing=1))[0] is Kind.UNKNOWN
    assert _kind(replace(there, ratio=2.0))[0] is Kind.UNKNOWN


@pytest.mark.parametrize("field", ["ratio", "ratio_largest"])
@pytest.mark.parametrize("value", [88.0, float("inf"), float("nan")])
def test_an_error_far_above_that_of_right_results_is_corruption(field: str, value: float) -> None:
    assert _kind(replace(OTHER, **{field: value}))[0] is Kind.CORRUPTION


def test_what_does_not_repeat_is_unknown() -> None:
    assert _kind(replace(OTHER, repeats=False, ratio=99.0))[0] is Kind.UNKNOWN


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        (How.CARRIED, Kind.CORRUPTION),
        (How.GIVEN, Kind.DATA),
        (How.RNG, Kind.RNG),
        (How.NUMBERS, Kind.CONFIG),
        (How.PATH, Kind.CONFIG),
        (How.TRANSIENT, Kind.CORRUPTION),
        (How.UNREPEATED, Kind.UNKNOWN),
        (How.EQUAL, Kind.UNKNOWN),
    ],
)
def test_every_other_difference_has_its_kind(how: How, kind: Kind) -> None:
    assert _kind(replace(OTHER, how=how))[0] is kind


def test_it_survives_json() -> None:
    found = replace(OTHER, elements=(3, 9), value_a=float("nan"), value_b=1.5, max_ulp=4)
    again = Reanchored.from_json(found.to_json())
    assert repr(again) == repr(found)

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everybit.report.scale import Kind, fit_scale, linear_ticks, step_ticks

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(FINITE, FINITE, FINITE)
def test_any_range_has_an_axis_that_keeps_order(a, b, c):
    low, middle, high = sorted((a, b, c))
    scale = fit_scale(low, high, middle)
    places = [scale.place(value) for value in (low, middle, high)]
    assert all(0 <= place <= 1 for place in places)
    assert places == sorted(places)
    ticks = scale.ticks(5)
    assert 1 <= len(ticks) <= 40
    slack = 1e-6 * (scale.high / 2 - scale.low / 2)
    assert all(scale.low - slack <= tick <= scale.high + slack for tick in ticks)


@pytest.mark.parametrize(
    ("low", "high", "kind"),
    [
        (1.4, 10.0, Kind.LINEAR),
        (1e-4, 10.0, Kind.LOG),
        (0.0, 10.0, Kind.LINEAR),
        (-5.0, 10.0, Kind.LINEAR),
        (-5.0, 1e9, Kind.SIGNED_LOG),
        (2.0, 2.0, Kind.LINEAR),
    ],
)
def test_the_kind_follows_the_range(low, high, kind):
    assert fit_scale(low, high, 2.0).kind is kind


def test_a_loss_that_is_never_negative_has_no_negative_axis():
    assert fit_scale(0.0, 5.0, 1.0).low == 0.0


def test_ticks_of_steps_are_whole_numbers_in_range():
    assert step_ticks(0, 599, 8) == [0, 100, 200, 300, 400, 500]
    assert step_ticks(7, 7, 8) == [7]
    assert step_ticks(0, 1, 8) == [0, 1]
    assert linear_ticks(0.0, 0.0, 5) == [0.0]

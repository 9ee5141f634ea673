from __future__ import annotations

import math
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from everybit.report.series import Grid, Series

VALUES = st.floats(allow_nan=True, allow_infinity=True)


@settings(derandomize=True, max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 500), VALUES), min_size=1, max_size=300), st.integers(1, 90)
)
def test_folding_keeps_extremes_counts_and_order(entries, size):
    series = Series(Grid.over(range(501), size))
    assert series.grid.size <= size
    for step, value in entries:
        series.add(step, value)
    for stretches in (series.stretches(), series.stretches(5)):
        finite = [value for _, value in entries if math.isfinite(value)]
        assert sum(s.count for s in stretches) == len(finite)
        assert sum(s.broken for s in stretches) == len(entries) - len(finite)
        if finite:
            assert min(s.low for s in stretches if s.count) == min(finite)
            assert max(s.high for s in stretches if s.count) == max(finite)
        assert all(s.low <= s.mean <= s.high for s in stretches if s.count)
        assert all(math.isfinite(s.mean) for s in stretches if s.count)
        assert all(a.last < b.first for a, b in pairwise(stretches))
        for step, _ in entries:
            assert any(s.first <= step <= s.last for s in stretches)
    assert len(series.stretches(5)) <= 5


def test_the_mean_is_the_mean():
    series = Series(Grid.over(range(10), 2))
    for step in (0, 5, 1, 6, 2):  # out of order
        series.add(step, float(step))
    assert [(s.first, s.last, s.mean, s.count) for s in series.stretches()] == [
        (0, 4, 1.0, 3),
        (5, 9, 5.5, 2),
    ]


def test_a_spike_of_one_step_in_a_million_is_kept():
    series = Series(Grid.over(range(1_000_000), 480), watched={765_432})
    for step in range(0, 1_000_000, 7):
        series.add(step, 1.0)
    series.add(765_432, 99.0)
    assert len(series.stretches()) <= 480
    assert [s.high for s in series.stretches() if s.first <= 765_432 <= s.last] == [99.0]
    assert series.exact == {765_432: 99.0}


def test_steps_outside_the_grid_go_to_its_ends():
    series = Series(Grid.over(range(10, 20), 4))
    for step in (3, 12, 2**63):
        series.add(step, float(step))
    assert sum(s.count for s in series.stretches()) == 3

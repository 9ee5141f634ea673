from __future__ import annotations

import math
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from everybit.report.series import Series

VALUES = st.floats(allow_nan=True, allow_infinity=True, width=32)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 500), VALUES), min_size=1, max_size=300))
def test_folding_keeps_extremes_counts_and_order(entries):
    series = Series(max_buckets=16)
    for step, value in entries:
        series.add(step, value)
    for buckets in (series.buckets(), series.folded(5)):
        finite = [value for _, value in entries if math.isfinite(value)]
        assert sum(b.count for b in buckets) == len(finite)
        assert sum(b.broken for b in buckets) == len(entries) - len(finite)
        if finite:
            assert min(b.low for b in buckets if b.count) == min(finite)
            assert max(b.high for b in buckets if b.count) == max(finite)
        assert all(b.low <= b.mean <= b.high for b in buckets if b.count)
        assert all(a.last < b.first for a, b in pairwise(buckets))
        assert buckets[0].first == min(step for step, _ in entries)
        assert buckets[-1].last == max(step for step, _ in entries)
        broken = [step for step, value in entries if not math.isfinite(value)]
        if broken:
            assert next(b.first_broken for b in buckets if b.broken) == min(broken)
    assert len(series.buckets()) <= 16
    assert len(series.folded(5)) <= 5


def test_a_spike_of_one_step_in_a_million_is_kept():
    series = Series()
    for step in range(0, 1_000_000, 7):
        series.add(step, 1.0)
    series.add(765_432, 99.0)
    assert len(series.buckets()) <= 480
    assert [b.high for b in series.buckets() if b.first <= 765_432 <= b.last] == [99.0]


def test_folding_for_a_small_screen_leaves_the_series_alone():
    series = Series()
    for step in range(100):
        series.add(step, float(step))
    before = [(b.first, b.last, b.low, b.high) for b in series.buckets()]
    series.folded(3)
    assert [(b.first, b.last, b.low, b.high) for b in series.buckets()] == before

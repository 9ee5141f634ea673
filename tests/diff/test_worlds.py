"""One rank against two: the samples of a step together, reduced gradients, weights."""

from __future__ import annotations

from dataclasses import replace

from tests.diff.test_runs import rank_side, record, run
from tests.diff.test_traced import samples

from everybit.core.link import Link
from everybit.core.observation import SumTable
from everybit.diff.runs import diff_runs

SAMPLES = {0: (4, 9, 2, 7), 1: (1, 3, 8, 6)}


def delivered(rank: int, of: int, swap: dict[int, int] | None = None):
    found = []
    for step, indices in SAMPLES.items():
        mine = tuple((swap or {}).get(index, index) for index in indices[rank::of])
        words = tuple(index * 10 for index in mine)
        found.append(replace(samples(words, mine, step=step), rank=rank))
    return found


def world(size: int, *, swap=None, changes=None, sums=None, lost=False):
    """A run on `size` ranks, each with its share of the samples and inputs of its own."""
    sides = []
    for rank in range(size):
        records = []
        for step in SAMPLES:
            inputs = {Link.BATCH: {"0": 1000 * size + rank}, Link.LOSS: {"0": 100 * size + rank}}
            one = record(step, {**inputs, **(changes or {}).get(step, {})}, losses=(float(size),))
            rows = (SumTable(link=Link.GRAD, names=("w",), values=[sums]),) if sums else ()
            records.append(replace(one, sums=rows))
        share = delivered(rank, size, swap)
        sides.append(rank_side(records, rank=rank, samples=lambda share=share: iter(share)))
    return run(*sides[: size - lost], world_size=size, name="A" if size == 1 else "B")


def test_the_same_samples_on_two_ranks_are_no_difference() -> None:
    found = diff_runs(world(1), world(2))
    assert found.first is None
    (skip,) = found.coverage.skipped
    assert "A ran on 1 and B on 2" in skip.why
    assert not skip.promised


def test_other_samples_on_two_ranks_are_data() -> None:
    found = diff_runs(world(1), world(2, swap={8: 5}))
    assert (found.first.kind, found.first.where.step) == ("data", 1)
    assert "one sample" in found.first.why


def test_a_sum_over_ranks_that_rounds_otherwise_is_noise() -> None:
    row = [float(k % 5) - 1.5 for k in range(64)] + [40.0, 2.5]
    other = [value + 1e-7 for value in row[:64]] + row[64:]
    changes = {step: {Link.GRAD: {"w": 5, "b": 6}} for step in SAMPLES}
    found = diff_runs(world(1, sums=row), world(2, sums=other, changes=changes))
    assert found.first.kind == "noise"
    assert found.explained_by[0]["entry"] == "ranks"


def test_a_rank_that_is_not_on_record_is_no_other_number_of_ranks() -> None:
    found = diff_runs(world(1), world(2, lost=True))
    assert found.first.where.link == "batch"
    assert not any("A ran on" in skip.why for skip in found.coverage.skipped)

"""Numbers of a step, and what a record keeps of them."""

from __future__ import annotations

import math

from everybit.core.numbers import NOTHING, Origin, Source, StepNumbers, numbers_of, total_norm
from everybit.core.observation import StepRecord


def test_scalars_leave_out_what_was_not_measured_and_keep_what_is_not_finite():
    assert StepNumbers(step=0).scalars() == {}
    numbers = StepNumbers(
        step=0, rates=(0.1, 0.2), gradient_norms=(math.nan,), gradient_norm=math.nan
    )
    scalars = numbers.scalars()
    assert scalars["lr"] == 0.2
    assert math.isnan(scalars["grad_norm"])
    assert "scale" not in scalars


def test_a_record_gives_the_numbers_back():
    numbers = StepNumbers(
        step=3, optimizer="SGD", losses=(1.0, 3.0), rates=(0.1,), gradient_norm=2.0, scale=4.0
    )
    record = StepRecord(
        step=3,
        time_s=0.0,
        duration_s=1.0,
        guard_s=0.0,
        optimizer="SGD",
        losses=(1.0, 3.0),
        scalars=numbers.scalars(),
    )
    again = numbers_of(record)
    assert (again.step, again.loss, again.rate) == (3, 2.0, 0.1)
    assert (again.gradient_norm, again.scale) == (2.0, 4.0)
    assert math.isnan(again.weight_norm)


def test_what_is_bad_is_named():
    numbers = StepNumbers(
        step=0,
        names=("a", "b", "c"),
        gradient_norms=(NOTHING, math.inf, 1.0),
        weight_norms=(1.0, 1.0, math.nan),
    )
    assert numbers.bad_gradients == ("b",)
    assert numbers.bad_weights == ("c",)
    assert math.isnan(total_norm(numbers.weight_norms))


def test_an_origin_says_only_what_it_knows():
    assert Origin(source=Source.INPUT).to_json() == {
        "source": "input",
        "value": "nan",
        "num_bad": 0,
        "num_elements": 0,
    }

"""Noise or corruption, judged by breadth and size of the first difference, and by what repeats."""

from __future__ import annotations

from dataclasses import replace

import pytest

from everybit.core.link import Link
from everybit.diff.blocks import compare_blocks
from everybit.diff.evidence import BANDS, Evidence
from everybit.diff.noise import judge_evidence

REPEATS = "the 3 steps before it agree to the bit"


def evidence(moved: int, relative: float | None, *, blocks: int = 64, **fields) -> Evidence:
    return Evidence(
        num_tensors=4,
        num_tensors_moved=3,
        num_blocks=blocks,
        num_blocks_moved=moved,
        relative=relative,
        outlier=3.0,
        **fields,
    )


def judged(found: Evidence, *, environment=False, settled=False, code=False) -> tuple[str, str]:
    weighed = judge_evidence(found, environment=environment, settled=settled, code=code)
    return str(weighed.kind), str(weighed.certainty)


def test_most_blocks_moved_by_rounding_in_another_environment_is_noise() -> None:
    assert judged(evidence(60, 3e-7), environment=True) == ("noise", "strong")


def test_one_block_moved_far_is_corruption_in_any_environment() -> None:
    for moved in (1, 2, 8):
        found = evidence(moved, 0.4)
        assert judged(found, environment=True) == ("corruption", "strong")
        assert judged(found, settled=True) == ("corruption", "strong")


def test_one_block_moved_by_less_than_rounding_elsewhere_is_not_guessed() -> None:
    assert judged(evidence(1, 1e-8), environment=True)[0] == "unknown"


def test_a_job_that_repeats_makes_the_smallest_difference_real() -> None:
    found = evidence(1, 1e-9, repeats=REPEATS)
    assert judged(found, settled=True) == ("corruption", "strong")
    # The same where nothing proves that it repeats, or where something else differs.
    assert judged(replace(found, repeats=""), settled=True)[0] == "unknown"
    assert judged(found)[0] == "unknown"


def test_broad_and_beyond_rounding_is_no_noise() -> None:
    assert judged(evidence(64, 1e-2), environment=True)[0] == "unknown"
    assert judged(evidence(64, float("nan")), environment=True)[0] == "unknown"


def test_broad_rounding_with_nothing_to_cause_it_is_not_called_corruption() -> None:
    assert judged(evidence(62, 2e-7, repeats=REPEATS), settled=True)[0] == "unknown"
    assert judged(evidence(62, 0.8, repeats=REPEATS), settled=True)[0] == "unknown"
    assert judged(evidence(62, 2e-7))[0] == "unknown"


def test_one_block_far_beyond_the_others_is_not_called_noise() -> None:
    found = replace(evidence(64, 5e-7), outlier=300.0)
    assert judged(found, environment=True)[0] == "unknown"


def test_few_values_under_other_code_are_not_called_corruption() -> None:
    assert judged(evidence(1, 0.4), code=True)[0] == "unknown"


def test_a_loss_of_the_first_step_elsewhere_is_noise_and_a_later_one_is_not_guessed() -> None:
    loss = Evidence(num_tensors=1, num_tensors_moved=1, relative=2e-7, first=True)
    assert judged(loss, environment=True) == ("noise", "weak")
    assert judged(replace(loss, first=False), environment=True)[0] == "unknown"
    assert judged(replace(loss, relative=1e-3), environment=True)[0] == "unknown"


def test_one_gradient_of_many_is_few_and_all_of_them_are_not() -> None:
    one = Evidence(num_tensors=9, num_tensors_moved=1, independent=True, repeats=REPEATS)
    assert judged(one, settled=True) == ("corruption", "strong")
    assert judged(replace(one, num_tensors_moved=9), settled=True) == ("corruption", "weak")


def test_all_gradients_far_from_what_they_were_are_not_called_corruption() -> None:
    # Another clip factor; a fault on the way back leaves what was computed before it alone.
    every = Evidence(
        num_tensors=6, num_tensors_moved=6, independent=True, relative=0.8, repeats=REPEATS
    )
    assert judged(every, settled=True) == ("unknown", "weak")
    assert judged(replace(every, num_tensors_moved=4), settled=True) == ("corruption", "weak")
    for little_or_no_measure in (7e-4, float("nan"), 1e9):
        found = replace(every, relative=little_or_no_measure)
        assert judged(found, settled=True) == ("corruption", "weak")
    two = replace(every, num_tensors=2, num_tensors_moved=2)
    assert judged(two, settled=True) == ("corruption", "weak")


def test_an_error_against_float64_that_no_kernel_makes_is_corruption() -> None:
    found = replace(evidence(64, 2e-7), float64_ratio=88.0)
    assert judged(found, environment=True) == ("corruption", "strong")
    assert judged(replace(found, float64_ratio=1.4), environment=True)[0] == "noise"


def test_block_sums_tell_breadth_and_size() -> None:
    row = [float(k % 7) - 3.0 for k in range(64)] + [50.0, 3.0]
    other = [value + 1e-6 for value in row[:64]] + row[64:]
    change = compare_blocks(row, other)
    assert (change.num_blocks, change.num_moved) == (64, 64)
    assert change.relative == pytest.approx(8e-6 / 50.0, rel=1e-3)
    assert change.outlier == pytest.approx(1.0, rel=1e-3)
    one = [*row]
    one[9] += 2.0
    change = compare_blocks(row, one)
    assert (change.num_moved, change.worst) == (1, 9)
    assert change.relative > BANDS[Link.FORWARD]


def test_block_sums_that_hold_no_number_are_no_noise() -> None:
    row = [1.0] * 64 + [8.0, 1.0]
    nan = [float("nan"), *row[1:]]
    change = compare_blocks(row, nan)
    assert change.num_moved == 1
    assert not change.relative <= 1.0
    assert compare_blocks(nan, nan).num_moved == 0
    assert compare_blocks(row, row[:10]) is None


def test_a_change_below_the_sums_resolution_is_few() -> None:
    row = [1.0] * 64 + [8.0, 1.0]
    change = compare_blocks(row, row)
    assert (change.num_moved, change.relative) == (0, 0.0)


def test_a_tensor_with_few_elements_has_few_blocks() -> None:
    row = [1.0] * 5 + [0.0] * 59 + [2.0, 1.0]
    assert compare_blocks(row, [2.0, *row[1:]]).num_blocks == 5

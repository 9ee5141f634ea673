"""The judges of numerics over numbers alone: each fault, its harmless look-alike, a clean run."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from everybit.core.finding import Certainty, Severity
from everybit.core.numbers import (
    BufferNumbers,
    MomentFault,
    Origin,
    Replacement,
    Source,
    StepNumbers,
    numbers_of,
)
from everybit.core.observation import StepRecord
from everybit.detect.moment_impossible import adam_bound
from everybit.detect.numerics import NumericsJudge, judge_record

BASE = StepNumbers(step=0, optimizer="AdamW", rates=(1e-3,), names=("a.weight", "b.weight"))


def judged(steps):
    judge = NumericsJudge()
    return judge, [finding for numbers in steps for finding in judge.judge(numbers)]


def told(steps):
    return [(finding.rule, finding.where.step) for finding in judged(steps)[1]]


def losses(values, **facts):
    return [
        replace(BASE, step=step, losses=(float(value),), **facts)
        for step, value in enumerate(values)
    ]


def noisy(count, *, seed=0, level=2.0, noise=0.2):
    rng = random.Random(seed)
    return [level + rng.gauss(0, noise) for _ in range(count)]


@pytest.mark.parametrize("seed", range(5))
def test_a_usual_loss_is_quiet(seed):
    falling = [loss + 3 * math.exp(-step / 50) for step, loss in enumerate(noisy(500, seed=seed))]
    assert told(losses(falling)) == []


def test_a_loss_spike_is_told_once_at_its_step():
    values = noisy(100)
    values[70] = values[71] = 9.0
    (finding,) = judged(losses(values))[1]
    assert (finding.rule, finding.where.step) == ("NUM503", 70)
    assert finding.severity is Severity.WARNING
    assert finding.certainty is Certainty.WEAK
    assert finding.evidence["sensor"]


def test_ten_times_the_average_is_a_spike_before_there_is_a_band():
    values = noisy(25)
    values[20] = 30.0
    assert told(losses(values)) == [("NUM503", 20)]


def test_a_heavy_tail_is_no_spike():
    rng = random.Random(1)
    values = [rng.lognormvariate(0, 0.6) for _ in range(2000)]
    assert told(losses(values)) == []


def test_noise_of_a_loss_that_has_vanished_is_no_spike():
    values = [math.exp(-step / 5) + 1e-9 * (step % 7) for step in range(200)]
    values[150] = 1e-5
    assert told(losses(values)) == []


def test_a_phase_clears_the_band():
    values = noisy(80) + noisy(80, seed=1, level=30.0)
    judge = NumericsJudge()
    found = []
    for numbers in losses(values):
        if numbers.step == 80:
            judge.phase("another data set")
        found += judge.judge(numbers)
    assert found == []
    assert told(losses(values))[0] == ("NUM503", 80)


def test_a_jump_of_the_learning_rate_clears_the_band_a_slope_does_not():
    values = noisy(80) + noisy(80, seed=1, level=9.0)
    jump = [
        replace(numbers, rates=(1e-3 if numbers.step < 80 else 5e-2,)) for numbers in losses(values)
    ]
    slope = [replace(numbers, rates=(1e-3 * 0.99**numbers.step,)) for numbers in losses(values)]
    assert told(jump) == []
    assert told(slope)[0] == ("NUM503", 80)


def test_a_loaded_checkpoint_clears_the_band():
    values = noisy(80, level=1.0) + noisy(80, seed=1, level=9.0)
    steps = losses(values)
    steps[80] = replace(steps[80], rewritten=True)
    assert told(steps) == []


def gradients(norms, **facts):
    return [
        replace(BASE, step=step, gradient_norms=(norm, norm), gradient_norm=1.4 * norm, **facts)
        for step, norm in enumerate(norms)
    ]


def test_a_gradient_spike_names_the_parameter_that_rose_most():
    steps = gradients([abs(norm) for norm in noisy(100)])
    steps[70] = replace(steps[70], gradient_norms=(2.0, 900.0), gradient_norm=900.0)
    (finding,) = judged(steps)[1]
    assert (finding.rule, finding.where.step) == ("NUM504", 70)
    assert finding.where.parameter == "b.weight"
    assert finding.where.module == "b"


def test_clipped_gradients_and_skipped_steps_are_no_spike():
    assert told(gradients([1.0] * 70 + [1.4] * 30)) == []
    steps = gradients([abs(norm) for norm in noisy(100)])
    steps[70] = replace(steps[70], gradient_norm=math.inf, skipped=True)
    assert told(steps) == []


def test_jitter_at_a_regular_period():
    rng = random.Random(0)
    values = [0.5 + 0.15 * rng.random() for _ in range(200)]
    for step in range(0, 200, 10):
        values[step] += 0.5
    (finding,) = judged(losses(values))[1]
    assert finding.rule == "NUM509"
    assert finding.evidence["period"] == 10
    assert finding.where.step == 110


def test_data_in_a_fixed_order_is_no_jitter():
    rng = random.Random(3)
    epoch = [rng.gauss(2, 0.3) for _ in range(20)]
    epoch[4] = 4.0
    values = [epoch[step % 20] + rng.gauss(0, 0.02) for step in range(400)]
    assert told(losses(values)) == []


def test_jumps_at_odd_times_are_no_jitter():
    rng = random.Random(4)
    values = noisy(400, noise=0.05)
    for _ in range(40):
        values[rng.randrange(400)] += 0.5
    assert "NUM509" not in [rule for rule, _ in told(losses(values))]


def test_a_loss_that_grows_without_end():
    values = noisy(100) + [2.0 * 1.2**step for step in range(60)]
    assert ("NUM511", 114) in told(losses(values))


@pytest.mark.parametrize(("update", "told_of"), [(0.03, True), (0.001, False)])
def test_a_loss_that_grows_with_its_inputs_is_no_divergence(update, told_of):
    # Sorted inputs: each pass begins small again. Only where the weights went along is it training.
    values = [2.0 * (1 + step % 20) ** 3 for step in range(80)]
    steps = losses(values, update_norm=update, weight_norm=1.0)
    assert ("NUM511" in [rule for rule, _ in told(steps)]) is told_of


def test_a_loss_that_never_came_back_needs_no_update():
    values = noisy(100) + [40.0 + step for step in range(40)]
    steps = losses(values, update_norm=0.0001, weight_norm=1.0)
    assert [rule for rule, _ in told(steps)] == ["NUM503", "NUM511"]


def test_a_warm_restart_is_no_divergence():
    values = [2.0 * math.exp(-(step % 50) / 8) + 0.01 for step in range(300)]
    steps = [
        replace(
            numbers, rates=(0.1 if numbers.step % 50 == 0 else 0.09 - 0.001 * (numbers.step % 50),)
        )
        for numbers in losses(values)
    ]
    assert [rule for rule, _ in told(steps) if rule == "NUM511"] == []


def test_adversaries_may_lose_more():
    steps = []
    for step in range(200):
        steps.append(replace(BASE, step=2 * step, optimizer="D", losses=(0.7,)))
        steps.append(replace(BASE, step=2 * step + 1, optimizer="G", losses=(0.7 + 0.06 * step,)))
    assert told(steps) == []


def scaled(skips, *, scale=65536.0):
    return [
        replace(BASE, step=step, losses=(1.0,), skipped=skipped, scale=scale)
        for step, skipped in enumerate(skips)
    ]


def test_a_scaler_that_only_skips():
    (finding,) = judged(scaled([False] * 20 + [True] * 30))[1]
    assert finding.rule == "NUM510"
    assert finding.where.step == 20
    assert finding.evidence["step"] == 27
    assert finding.severity is Severity.ERROR


def test_healthy_skips_are_none():
    assert told(scaled([True] * 14 + ([False] * 40 + [True]) * 4)) == []
    assert told(scaled([True] * 30)) == [("NUM510", 0)]


def test_a_loss_that_is_not_finite_is_told_once_until_all_is_finite_again():
    values = noisy(60)
    for step in (10, 11, 12, 40):
        values[step] = math.nan
    judge, found = judged(losses(values))
    assert [(each.rule, each.where.step) for each in found] == [("NUM501", 10), ("NUM501", 40)]
    assert judge.broken_spans == [(10, 12), (40, 40)]


def test_a_bad_loss_is_told_though_the_step_is_skipped_infinite_gradients_are_not():
    origin = Origin(source=Source.GRADIENT, parameter="a.weight", module="a")
    bad = replace(
        BASE, losses=(1.0,), gradient_norms=(math.inf, 1.0), gradient_origin=origin, skipped=True
    )
    assert told([bad]) == []
    assert told([replace(bad, losses=(math.nan,))]) == [("NUM501", 0)]
    assert told([replace(bad, skipped=False)]) == [("NUM502", 0)]


def test_what_follows_from_bad_values_is_folded():
    origin = Origin(source=Source.GRADIENT, parameter="a.weight", module="a")
    broken = replace(
        BASE,
        losses=(math.nan,),
        gradient_norms=(math.nan, math.nan),
        gradient_origin=origin,
        weight_norms=(math.nan, math.nan),
    )
    judge, found = judged([broken, replace(broken, step=1)])
    assert [finding.rule for finding in found] == ["NUM501"]
    assert judge.num_folded
    assert judge.coverage().skipped


def variances(norms, **facts):
    return [
        replace(
            BASE,
            step=step,
            losses=(1.0,),
            buffers=(BufferNumbers(name="bn.running_var", kind="variance", norm=norm, size=8),),
            **facts,
        )
        for step, norm in enumerate(norms)
    ]


def test_statistics_that_jump_after_they_have_settled():
    steps = variances([1.0 + 0.01 * step for step in range(20)] + [1e13, 9e12])
    assert told(steps) == [("NUM506", 20)]


def test_statistics_that_have_yet_to_settle_may_jump():
    assert told(variances([1.0, 1e9, 1.9e9] + [2e9 + step for step in range(20)])) == []


def test_a_mean_near_zero_may_move_within_its_spread():
    def step(number, mean):
        return replace(
            BASE,
            step=number,
            buffers=(
                BufferNumbers(name="bn.running_mean", kind="mean", norm=mean, size=8),
                BufferNumbers(
                    name="bn.running_var", kind="variance", norm=2 + 0.01 * number, size=8
                ),
            ),
        )

    usual = [step(number, 1e-9 * (1 + number)) for number in range(20)]
    assert told([*usual, step(20, 0.5)]) == []
    assert told([*usual, step(20, 1e6)]) == [("NUM506", 20)]


def test_buffers_that_were_not_finite_at_the_start_are_legal():
    mask = BufferNumbers(
        name="mask", kind="other", norm=math.inf, size=8, finite=False, was_finite=False
    )
    assert told([replace(BASE, step=step, buffers=(mask,)) for step in range(5)]) == []


def weights(norms, **facts):
    return [
        replace(BASE, step=step, matrices=(True, True), weight_norms=(norm, 3.0), **facts)
        for step, norm in enumerate(norms)
    ]


def test_a_norm_that_no_update_explains():
    steps = weights([5 + 0.01 * step for step in range(30)] + [60.0, 60.01])
    (finding,) = judged(steps)[1]
    assert (finding.rule, finding.where.step) == ("NUM508", 30)
    assert finding.where.parameter == "a.weight"


def test_weights_that_begin_at_zero_may_grow():
    assert told(weights([0.0] + [1e-3 * step for step in range(1, 60)])) == []


def test_values_replaced_by_unrelated_ones_and_by_earlier_ones():
    usual = weights([5 + 0.01 * step for step in range(31)])
    other = Replacement(parameter="a.weight", before=5.3, after=5.2, cosine=0.01)
    usual[30] = replace(usual[30], replaced=(other,))
    assert told(usual) == [("NUM508", 30)]
    usual[30] = replace(usual[30], replaced=(replace(other, cosine=0.7),))
    assert told(usual) == []


def test_impossible_moments_are_told_once():
    fault = MomentFault(
        parameter="a.weight", tensor="exp_avg_sq", what="is negative", elements=(3,), num_bad=1
    )
    steps = [replace(BASE, step=step, moments=(fault,)) for step in range(3)]
    (finding,) = judged(steps)[1]
    assert finding.rule == "NUM507"
    assert finding.where.elements == (3,)
    assert finding.certainty is Certainty.PROOF


def test_the_bound_of_adam_holds_for_the_worst_gradients_and_no_more():
    # The gradients that reach it fall by beta1 / beta2 a step.
    beta1, beta2 = 0.9, 0.999
    m = v = 0.0
    for power in range(600, -1, -1):
        gradient = (beta1 / beta2) ** power
        m = beta1 * m + (1 - beta1) * gradient
        v = beta2 * v + (1 - beta2) * gradient**2
    assert m * m / v == pytest.approx(adam_bound(beta1, beta2), rel=1e-3)
    assert m * m / v <= adam_bound(beta1, beta2)


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_of_adam_survives_a_change_of_betas(seed):
    rng = random.Random(seed)
    betas = [(rng.uniform(0.8, 0.95), 0.999) for _ in range(5)]
    bound = max(adam_bound(*pair) for pair in betas)
    m = v = 0.0
    for _ in range(500):
        beta1, beta2 = rng.choice(betas)
        gradient = rng.choice((1.0, 1.0, 100.0, 0.0)) * rng.gauss(0.3, 1)
        m = beta1 * m + (1 - beta1) * gradient
        v = beta2 * v + (1 - beta2) * gradient**2
        assert m * m <= bound * v * (1 + 1e-12)


def test_a_record_is_judged_as_it_was_live():
    values = noisy(100)
    values[70] = 9.0
    records = [
        StepRecord(
            step=step,
            time_s=0.0,
            duration_s=1.0,
            guard_s=0.0,
            optimizer="AdamW",
            losses=(loss,),
            scalars={"lr": 1e-3, "grad_norm": 1.0},
        )
        for step, loss in enumerate(values)
    ]
    assert [(each.rule, each.where.step) for each in judge_record(records)] == [("NUM503", 70)]
    assert numbers_of(records[0]).rates == (1e-3,)

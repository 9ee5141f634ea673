"""A loss far above or below its band, right after a resume."""

from __future__ import annotations

import random

import pytest

from everybit.detect.loss_after_resume import STEPS, ResumeBand


def band(losses: list[float]) -> ResumeBand:
    made = ResumeBand()
    made.resume(losses)
    return made


def noisy(count: int, seed: int = 0) -> list[float]:
    drawn = random.Random(seed)
    return [2.0 - 0.005 * number + drawn.gauss(0, 0.05) for number in range(count)]


@pytest.mark.parametrize(("loss", "side"), [(0.4, "below"), (4.0, "above")])
def test_a_loss_far_from_its_band_is_told_once(loss: float, side: str) -> None:
    resumed = band(noisy(64))
    finding = resumed.judge(loss, step=64, optimizer="SGD", rank=0)
    assert finding is not None
    assert finding.rule == "NUM503"
    assert finding.evidence["side"] == side
    assert "the first after a resume" in finding.message
    assert resumed.judge(loss, step=65, optimizer="SGD", rank=0) is None


def test_a_resume_that_goes_on_is_silent() -> None:
    for seed in range(50):
        losses = noisy(64 + STEPS, seed)
        resumed = band(losses[:64])
        assert not any(resumed.judge(each, step=64, optimizer="", rank=0) for each in losses[64:])


def test_what_is_no_resume_or_too_short_a_band() -> None:
    assert ResumeBand().judge(0.1, step=0, optimizer="", rank=0) is None
    assert band(noisy(20)).judge(0.1, step=20, optimizer="", rank=0) is None
    later = band(noisy(64))
    for step in range(STEPS):
        assert later.judge(1.7, step=step, optimizer="", rank=0) is None
    assert later.judge(0.1, step=STEPS, optimizer="", rank=0) is None
    assert list(later.recent)[-1] == 0.1

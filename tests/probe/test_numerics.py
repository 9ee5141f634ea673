"""Numbers of tensors: norms of every kind of tensor, and exact counts."""

from __future__ import annotations

import math

import pytest
import torch

from everybit.probe import numerics
from everybit.probe.numerics import (
    SAMPLE,
    count_bad,
    plain_values,
    read_norms,
    sample_scale,
    sample_view,
)


def kinds():
    torch.manual_seed(0)
    return [
        torch.randn(5, 7),
        torch.randn(3, dtype=torch.float64),
        torch.randn(4, 4).bfloat16(),
        torch.full((300,), 60000.0, dtype=torch.float16),
        torch.randn(6, dtype=torch.complex64),
        torch.randn(4, 6).t(),
        torch.zeros(0),
        torch.tensor(3.0),
    ]


def test_norms_of_all_kinds_at_once():
    tensors = kinds()
    values = read_norms([*tensors, None, torch.arange(3)], -1.0).values
    for tensor, value in zip(tensors, values, strict=False):
        wide = tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)
        assert value == pytest.approx(float(wide.norm()), rel=1e-2, abs=1e-12)
    assert values[-2:] == [-1.0, -1.0]


def test_norms_that_the_readout_has_to_bring(monkeypatch):
    here = read_norms(kinds(), -1.0).values
    monkeypatch.setattr(numerics, "on_host", lambda _: False)
    reading = read_norms(kinds(), -1.0)
    assert reading.values == [-1.0] * len(here)
    words = [int(word) % (1 << 64) for word in reading.words_wanted]
    assert reading.fill(words) == pytest.approx(here, rel=1e-6)


def test_a_sparse_gradient():
    sparse = torch.sparse_coo_tensor([[1, 3]], [[3.0], [4.0]], (5, 1))
    assert read_norms([sparse], -1.0).values == [5.0]


@pytest.mark.parametrize(
    ("value", "kind"), [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")]
)
def test_bad_elements_are_counted(value, kind):
    tensor = torch.zeros(4, 5)
    tensor[2, 3] = tensor[3, 1] = value
    assert count_bad(tensor) == (2, kind, 13)
    assert count_bad(torch.full((9,), 1e30)) == (0, "", -1)
    assert count_bad(torch.arange(3)) == (0, "", -1)


def test_a_sample_is_a_view_and_spread_over_rows_and_columns():
    tensor = torch.zeros(64, 1024)
    sample = sample_view(tensor)
    assert SAMPLE // 2 <= sample.numel() <= 2 * SAMPLE
    sample += 1
    assert (tensor.sum(0) > 0).sum() > 400
    assert (tensor.sum(1) > 0).all()
    assert sample_view(torch.zeros(2, 3, 4, 4).to(memory_format=torch.channels_last)) is not None
    assert sample_view(torch.zeros(4, 4)[:, ::2]) is None


def test_a_sample_tells_how_far_all_moved():
    torch.manual_seed(0)
    tensor = torch.randn(300, 400)
    before = sample_view(tensor).clone()
    change = 1e-3 * torch.randn_like(tensor)
    tensor += change
    estimate = float((sample_view(tensor) - before).norm()) * sample_scale(tensor, before)
    assert estimate == pytest.approx(float(change.norm()), rel=0.1)


def test_what_has_no_values_here():
    assert plain_values(torch.empty(3, device="meta")) is None
    assert plain_values(torch.arange(3)) is None

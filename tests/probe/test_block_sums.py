from __future__ import annotations

import numpy as np
import pytest
import torch

from everybit.core.signs import sums_of
from everybit.probe.block_sums import _add_elsewhere, block_sums, has_sums

SIZES = [0, 1, 63, 64, 65, 640, 4097, 200_001]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_sums_are_those_of_the_definition(size: int, dtype: torch.dtype) -> None:
    values = torch.randn(size, generator=torch.Generator().manual_seed(size)).to(dtype)
    wanted = sums_of(values.double().numpy())
    row = block_sums(values)
    assert row.dtype is (torch.float64 if dtype is torch.float64 else torch.float32)
    assert np.allclose(row.double().numpy(), wanted, rtol=2e-7, atol=1e-6)


@pytest.mark.parametrize("size", SIZES[1:])
def test_an_accelerator_adds_the_same(size: int) -> None:
    values = torch.randn(size, dtype=torch.float64)
    row = torch.zeros(66, dtype=torch.float64)
    _add_elsewhere(row, values)
    assert np.allclose(row.numpy(), sums_of(values.numpy()))


def test_the_thread_count_changes_nothing() -> None:
    values = torch.randn(1 << 20)
    before = torch.get_num_threads()
    rows = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            rows.append(block_sums(values))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(rows[0], row) for row in rows)


def test_one_flip_shows_in_one_block() -> None:
    values = torch.randn(50_000)
    before = block_sums(values)
    values.view(torch.int32)[31_000] ^= 1 << 20
    moved = (block_sums(values) != before).nonzero().reshape(-1).tolist()
    assert moved[0] == 31_000 // -(-50_000 // 64)
    assert all(place >= 64 for place in moved[1:])


def test_layouts_and_complex_numbers() -> None:
    values = torch.randn(6, 50)
    assert torch.equal(block_sums(values.t().contiguous().t()), block_sums(values))
    pairs = torch.view_as_complex(values.reshape(-1, 2).contiguous())
    assert torch.equal(block_sums(pairs), block_sums(values))
    assert torch.equal(block_sums(pairs.conj().conj_physical()), block_sums(values))


def test_what_is_not_finite_stays_so() -> None:
    values = torch.ones(640)
    values[25] = torch.nan
    values[35] = torch.inf
    row = block_sums(values)
    assert row[:4].isnan().tolist() == [False, False, True, False]
    assert row[3].isinf()
    assert row[64].isnan()


def test_integers_have_none() -> None:
    assert not has_sums(torch.ones(3, dtype=torch.int64))
    assert not has_sums(torch.ones(3, dtype=torch.bool))

from __future__ import annotations

import numpy as np
import pytest

from everybit.core.signs import NUM_COLUMNS, block_length, block_signs, sums_of

_WORD = (1 << 64) - 1


def splitmix(state: int) -> int:
    z = (state + 0x9E3779B97F4A7C15) & _WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _WORD
    return z ^ (z >> 31)


def test_signs_are_those_of_splitmix() -> None:
    wanted = [-1.0 if splitmix(j) >> 63 else 1.0 for j in range(500)]
    assert block_signs(500).tolist() == wanted
    assert not block_signs(500).flags.writeable


def test_golden_sums() -> None:
    """They are in run folders: another definition would tell of differences that are none."""
    row = sums_of(np.arange(1.0, 201.0))
    assert block_length(200) == 4
    assert row.shape == (NUM_COLUMNS,)
    assert row[:3].tolist() == [-2.0, -10.0, -18.0]
    assert row[49:52].tolist() == [-394.0, 0.0, 0.0]
    assert row[64] == pytest.approx(np.sqrt(200 * 201 * 401 / 6))
    assert row[65] == 200.0


def test_a_swap_within_a_block_shows() -> None:
    values = np.random.default_rng(0).normal(size=6400)
    swapped = values.copy()
    swapped[[102, 103]] = swapped[[103, 102]]
    before, after = sums_of(values), sums_of(swapped)
    assert np.flatnonzero(before != after).tolist()[0] == 1


def test_an_empty_tensor_has_sums_of_zero() -> None:
    assert not sums_of(np.empty(0)).any()

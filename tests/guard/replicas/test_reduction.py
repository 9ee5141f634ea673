"""Sums of gradients before and behind a reduction: rounding fits the bound, faults do not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import xxhash

from everybit.guard.replicas.block_sums import (
    MAX_BLOCKS,
    Blocks,
    Rounding,
    absolute_sums,
    cut,
    signed_sums,
)
from everybit.guard.replicas.reduction import NUM_LANES, Reduction, Sums


@pytest.mark.parametrize("sizes", [[1], [255, 0, 257], [10_000_000, 3, 9], [5] * 5000])
def test_blocks_fit(sizes: list[int]) -> None:
    blocks = [each for each in cut(sizes) if each is not None]
    assert sum(each.count for each in blocks) <= MAX_BLOCKS
    starts = [each.start for each in blocks]
    assert starts == sorted(starts)
    for each in blocks:
        assert each.elements(each.count - 1)[1] == each.num_elements


def test_many_tensors_take_turns() -> None:
    sizes = [5] * 5000
    seen = {index for turn in range(3) for index, each in enumerate(cut(sizes, turn=turn)) if each}
    assert len(seen) == 5000


def shown(parts: list[torch.Tensor], reduced: list[torch.Tensor]) -> tuple[Sums, np.ndarray]:
    """What ranks show that sent `parts` and got `reduced`."""
    (blocks,) = cut([parts[0].numel()])
    assert blocks is not None
    rows = np.zeros((len(parts), NUM_LANES), np.int64)
    for row, part, got in zip(rows, parts, reduced, strict=True):
        floats = np.full((3, MAX_BLOCKS), np.nan)
        sums = signed_sums(part, blocks), absolute_sums(part, blocks), signed_sums(got, blocks)
        floats[:, : blocks.count] = torch.stack(sums).numpy()
        row[1] = xxhash.xxh3_64_intdigest(b"layout") >> 1
        row[2:] = floats.reshape(-1).view(np.int64)
    ranks = tuple(range(len(parts)))
    rounding = Rounding(num_ranks=len(parts), dtype=parts[0].dtype)
    return Sums(0, ["w"], [blocks], [rounding], [float(len(parts))], ranks, rows[0]), rows


def mean(parts: list[torch.Tensor]) -> torch.Tensor:
    """The mean as a reduction rounds it."""
    total = parts[0] * (1 / len(parts))
    for part in parts[1:]:
        total = total + part * (1 / len(parts))
    return total


def drawn(num_ranks: int, size: int, dtype: torch.dtype, seed: int) -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    scale = torch.exp(4 * torch.randn(size, generator=random))
    return [(torch.randn(size, generator=random) * scale).to(dtype) for _ in range(num_ranks)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("num_ranks", [2, 3, 7])
def test_rounding_is_no_finding(dtype: torch.dtype, num_ranks: int) -> None:
    for seed in range(5):
        parts = drawn(num_ranks, 3000, dtype, seed)
        sums, rows = shown(parts, [mean(parts)] * num_ranks)
        reduction = Reduction(1)
        assert reduction.judge(sums, rows, 0) == []
        # In float16 some of these overflow.
        assert reduction.num_checked == 1 or dtype is torch.float16


@pytest.mark.parametrize("element", [0, 700, 2999])
def test_a_changed_value_is_found_in_its_block(element: int) -> None:
    parts = drawn(3, 3000, torch.float32, 1)
    reduced = mean(parts)
    reduced[element] += 1e-3 * reduced.abs().max()
    sums, rows = shown(parts, [reduced] * 3)
    (finding,) = Reduction(1).judge(sums, rows, 0)
    assert finding.rule == "RNK802"
    ((start, end),) = finding.where.element_ranges or ()
    assert start <= element < end
    assert finding.where.rank is None
    assert Reduction(1).judge(sums, rows, 1) == []  # The lowest rank tells.


@pytest.mark.parametrize(("factor", "said"), [(0.0, "is missing"), (2.0, "is in it twice")])
def test_whose_part_explains_it(factor: float, said: str) -> None:
    parts = drawn(3, 3000, torch.float32, 2)
    reduced = mean([parts[0], parts[1] * factor, parts[2]])
    sums, rows = shown(parts, [reduced] * 3)
    (finding,) = Reduction(1).judge(sums, rows, 0)
    assert finding.where.rank == 1
    assert said in finding.message


def test_what_cannot_be_judged_is_not() -> None:
    parts = drawn(3, 3000, torch.float32, 3)
    reduced = mean(parts)
    other = reduced.clone()
    other[5] += 1
    sums, rows = shown(parts, [reduced, other, reduced])
    assert Reduction(1).judge(sums, rows, 0) == []  # Copies that differ are told by digests.
    parts[1][7] = float("inf")
    sums, rows = shown(parts, [mean(parts)] * 3)
    assert Reduction(1).judge(sums, rows, 0) == []  # A gradient that overflowed.
    sums, rows = shown(drawn(3, 3000, torch.float32, 4), [reduced] * 3)
    rows[1, 1] = 0
    assert Reduction(1).judge(sums, rows, 0) == []  # A rank that looked at something else.


def test_the_bound_is_tight_enough() -> None:
    blocks = Blocks(256, 256, 0)
    part = torch.ones(256)
    absolute = absolute_sums(part, blocks).numpy()
    rounding = Rounding(num_ranks=3, dtype=torch.float32)
    assert 0 < absolute[0] * rounding.relative(256) < 1e-4
    assert 0 < rounding.least(256) < 1e-30

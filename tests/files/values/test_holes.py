"""FIL105: zeros that a lost write left, against every kind of zero that belongs where it is."""

from __future__ import annotations

import random

import pytest
import torch
from tests.files.values import corpus

import everybit
from everybit.core.finding import Certainty, Severity

WEIGHT = "blocks.0.up.weight"


def weights(dtype=torch.float32):
    return corpus.cast(corpus.trained_gpt()[0], dtype)


def holes(path):
    return [finding for finding in everybit.verify(path).findings if finding.rule == "FIL105"]


def only(path):
    findings = everybit.verify(path).findings
    assert [finding.rule for finding in findings] == ["FIL105"], findings
    return findings[0]


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.float8_e4m3fn]
)
def test_a_lost_page_is_placed_to_the_byte(tmp_path, dtype):
    path = corpus.save(weights(dtype), tmp_path / "m.safetensors")
    assert not everybit.verify(path).findings
    at = corpus.page_inside(path, WEIGHT)
    corpus.zero(path, at, at + corpus.PAGE)
    finding = only(path)
    assert finding.where.tensor == WEIGHT
    assert finding.where.byte_range == (at, at + corpus.PAGE)
    start, _ = corpus.place_of(path, WEIGHT)
    size = dtype.itemsize
    low, high = finding.where.element_ranges[0][0], finding.where.element_ranges[-1][1]
    assert low * size <= at - start < at - start + corpus.PAGE <= high * size
    assert (high - low) * size <= corpus.PAGE + 2 * size
    assert finding.certainty is Certainty.STRONG
    assert finding.severity is Severity.ERROR
    assert finding.evidence["lost"] == [WEIGHT]


def test_a_lost_sector_is_a_weak_warning(tmp_path):
    path = corpus.save(weights(), tmp_path / "m.safetensors")
    at = corpus.page_inside(path, WEIGHT, block=512)
    corpus.zero(path, at, at + 512)
    finding = only(path)
    assert (finding.severity, finding.certainty) == (Severity.WARNING, Certainty.WEAK)
    assert finding.evidence["block_bytes"] == 512


def test_a_hole_over_many_tensors_is_one_finding(tmp_path):
    path = corpus.save(weights(), tmp_path / "m.safetensors")
    at = corpus.page_inside(path, "blocks.0.out.weight")
    end = corpus.page_inside(path, "blocks.1.qkv.weight")
    corpus.zero(path, at, end)
    finding = only(path)
    assert finding.where.byte_range == (at, end)
    assert set(finding.evidence["cut"]) == {"blocks.0.out.weight", "blocks.1.qkv.weight"}
    assert WEIGHT in finding.evidence["covered"]
    assert set(finding.evidence["lost"]) >= {"blocks.0.out.weight", "blocks.1.qkv.weight", WEIGHT}


def test_a_tail_that_was_never_written_is_told(tmp_path):
    path = corpus.save(weights(), tmp_path / "m.safetensors")
    at = corpus.page_inside(path, "blocks.1.qkv.weight")
    corpus.zero(path, at, path.stat().st_size)
    assert only(path).where.byte_range == (at, path.stat().st_size // 512 * 512)


def test_with_a_checksum_that_fails_it_is_one_proven_finding(tmp_path):
    path = corpus.save(weights(), tmp_path / "m.pt")
    at = corpus.page_inside(path, WEIGHT)
    corpus.zero(path, at, at + corpus.PAGE)
    finding = only(path)
    assert finding.certainty is Certainty.PROOF
    assert finding.where.byte_range == (at, at + corpus.PAGE)
    (sums,) = finding.evidence["checksums"]
    assert sums["expected"] != sums["found"]
    assert finding.evidence["num_whole_by_checksum"] == len(weights()) - 1


def test_a_hole_over_an_archives_records_is_one_finding(tmp_path):
    path = corpus.save(weights(), tmp_path / "m.pt")
    start, end = corpus.place_of(path, WEIGHT)
    low, high = start - start % corpus.PAGE, end - end % -corpus.PAGE
    corpus.zero(path, low, high)
    finding = only(path)
    assert finding.certainty is Certainty.PROOF
    assert finding.evidence["structure"]
    assert WEIGHT in finding.evidence["lost"]


def test_random_holes_in_trained_weights_and_moments(tmp_path):
    rng = random.Random(0)
    weights_, state = corpus.trained_gpt()
    tensors = weights_ | corpus.flat_state(state)
    path = corpus.save(tensors, tmp_path / "m.safetensors")
    whole = path.read_bytes()
    big = [name for name, tensor in tensors.items() if tensor.nbytes > 30_000]
    # Bytes from 128 on never occur in the text, so those rows of the moments are zero by nature.
    big = [name for name in big if (tensors[name] != 0).float().mean() > 0.9]
    for _ in range(40):
        start, end = corpus.place_of(path, rng.choice(big))
        pages = rng.choice((1, 1, 2, 3))
        at = rng.randrange(start, end - (pages + 1) * corpus.PAGE)
        at += -at % corpus.PAGE
        corpus.zero(path, at, at + pages * corpus.PAGE)
        (finding,) = holes(path)
        assert finding.where.byte_range == (at, at + pages * corpus.PAGE)
        path.write_bytes(whole)


def genuine_zeros() -> dict[str, torch.Tensor]:
    rng = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=rng) * 0.02

    pruned = draw(256, 512)
    pruned[pruned.abs() < 0.04] = 0
    blocks = draw(128, 32, 32)
    blocks[torch.rand(128, generator=rng) < 0.6] = 0
    rows = draw(512, 256)
    rows[300:420] = 0
    padded = draw(400, 320)
    padded[-77:] = 0
    middle = draw(3 * 2048)
    middle[2048:4096] = 0
    fused = draw(3 * 256, 256)
    fused[256:512] = 0
    bound = draw(100, 700)
    bound[:, :350] = 0
    few = (draw(256, 512) * 300).round().clamp(-127, 127)
    return {
        "lora_B": torch.zeros(1024, 16),
        "bias": torch.zeros(4096),
        "pruned": pruned,
        "block_sparse": blocks,
        "zero_rows": rows,
        "padded_vocabulary": padded,
        "fused_bias": middle,
        "fused_weight": fused,
        "half_columns": bound,
        "int8": few.to(torch.int8),
        "mask": torch.tril(torch.ones(256, 256)).bool(),
        "float_mask": torch.triu(torch.ones(256, 256)),
        "labels": torch.randint(0, 9, (40_000,), generator=rng).sort().values,
        "moment": torch.cat((draw(100, 200) ** 2, torch.zeros(56, 200), draw(100, 200) ** 2)),
        "flat": torch.cat((draw(5000), torch.zeros(1536), draw(3000), torch.zeros(768))),
        "dense": draw(700, 333),
    }


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_genuine_zeros_are_no_finding_wherever_they_fall(tmp_path, suffix):
    tensors = genuine_zeros()
    for shift in range(12):
        # A first tensor of another size moves all that follow against the blocks of the file.
        moved = {"a" * (1 + shift): torch.ones(16 * shift + 1), **tensors}
        path = corpus.save(moved, tmp_path / f"m{suffix}")
        assert everybit.verify(path).findings == (), shift


def test_moments_of_tokens_that_never_occurred_are_no_finding(tmp_path):
    state = corpus.flat_state(corpus.trained_gpt()[1])
    assert any((tensor == 0).float().mean() > 0.3 for tensor in state.values())
    for shift in range(8):
        moved = {"a" * (1 + 8 * shift): torch.ones(1), **state}
        path = corpus.save(moved, tmp_path / "o.safetensors")
        assert everybit.verify(path).findings == ()


def test_a_sparse_file_whose_holes_are_zero_tensors_is_no_finding(tmp_path):
    tensors = {"a": torch.randn(5000), "zeros": torch.zeros(200_000), "z": torch.randn(5000)}
    path = corpus.save(tensors, tmp_path / "m.safetensors")
    data = path.read_bytes()
    with path.open("r+b") as file:
        file.truncate(0)
        for at in range(0, len(data), corpus.PAGE):
            if any(data[at : at + corpus.PAGE]):
                file.seek(at)
                file.write(data[at : at + corpus.PAGE])
        file.truncate(len(data))
    assert path.stat().st_blocks * 512 < len(data)
    assert everybit.verify(path).findings == ()


def test_zeros_that_start_or_end_with_their_tensor_are_no_finding(tmp_path):
    rates = torch.exp(-torch.arange(1024) * (9.2 / 1024))
    angles = torch.arange(40.0)[:, None] * rates
    tensors = {
        "positions": torch.cat((angles.sin(), angles.cos()), dim=1),  # its first row: 0 ... 1 ...
        "cache": torch.cat((torch.randn(3000), torch.zeros(5 * 1024))),
        "z": torch.randn(3000),
    }
    for shift in range(64):
        moved = {"a": torch.ones(16 * shift + 1), **tensors}
        path = corpus.save(moved, tmp_path / "m.pt")
        assert everybit.verify(path).findings == (), shift


def test_a_hole_beside_genuine_zeros_of_another_tensor_is_found(tmp_path):
    path = corpus.save(genuine_zeros(), tmp_path / "m.safetensors")
    at = corpus.page_inside(path, "dense", number=3)
    corpus.zero(path, at, at + corpus.PAGE)
    assert only(path).where.tensor == "dense"

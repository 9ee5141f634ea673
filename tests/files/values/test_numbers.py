"""FIL112 and FIL113: values that cannot be, against all that trained models really hold."""

from __future__ import annotations

import json
import math
import random
import struct

import pytest
import torch
from tests.files.values import corpus

import everybit
from everybit.core.finding import Severity

NAME = "blocks.1.down.weight"


def only(path):
    (finding,) = everybit.verify(path).findings
    return finding


def saved(tmp_path, **tensors):
    return corpus.save(tensors, tmp_path / "m.safetensors")


def plain(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * 0.02


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_a_flipped_top_exponent_bit_is_named(tmp_path, dtype):
    tensors = corpus.cast(corpus.trained_gpt()[0], dtype)
    path = corpus.save(tensors, tmp_path / "m.safetensors")
    start, _ = corpus.place_of(path, NAME)
    size = dtype.itemsize
    rng = random.Random(1)
    whole = path.read_bytes()
    for _ in range(12):
        flat = tensors[NAME].flatten()
        element = rng.randrange(len(flat))
        if abs(float(flat[element])) < 0.002:
            continue  # in float16 too small a value stays small
        corpus.flip(path, start + element * size + size - 1, 6)
        finding = only(path)
        assert (finding.rule, finding.severity) == ("FIL113", Severity.WARNING)
        assert finding.where.tensor == NAME
        assert finding.where.elements == (element,)
        (change,) = finding.evidence["changes"]
        assert change["bits"] == [8 * size - 2]
        assert change["before"] == pytest.approx(float(flat[element]))
        assert finding.evidence["largest_other"] <= float(flat.abs().max().double())
        path.write_bytes(whole)


def test_flips_of_other_bits_are_not_seen_and_not_called_clean(tmp_path):
    path = corpus.save(corpus.trained_gpt()[0], tmp_path / "m.safetensors")
    start, _ = corpus.place_of(path, NAME)
    corpus.flip(path, start + 402, 3)
    verdict = everybit.verify(path)
    assert verdict.findings == ()
    assert str(verdict.status) == "inconclusive"


def test_a_short_run_of_garbage_is_found(tmp_path):
    path = corpus.save(corpus.trained_gpt()[0], tmp_path / "m.safetensors")
    start, _ = corpus.place_of(path, NAME)
    corpus.put(path, start + 4000, struct.pack("<4f", 3e30, -7e31, 2e30, 5e33))
    finding = only(path)
    assert finding.rule == "FIL113"
    assert finding.where.elements == (1000, 1001, 1002, 1003)


def test_in_an_archive_with_checksums_the_checksum_tells(tmp_path):
    path = corpus.save(corpus.trained_gpt()[0], tmp_path / "m.pt")
    start, _ = corpus.place_of(path, NAME)
    corpus.flip(path, start + 4 * 77 + 3, 6)
    finding = only(path)
    assert finding.rule == "FIL108"
    assert finding.evidence["values"][0]["tensor"] == NAME
    assert finding.where.elements == (77,)


def real_life():
    """Tensors that look odd and are what people store."""
    timestamps = plain(20).abs()
    timestamps[18] = 2.3e18
    outliers = plain(256, 512)
    outliers[:, 77] *= 300
    outliers[3, 3] = 17.0
    embedding = plain(1000, 64)
    embedding[999] *= 1e6
    embedding[0] = 0
    second = torch.exp(torch.randn(200, 300, generator=torch.Generator().manual_seed(3)) * 12 - 30)
    bias = plain(5000)
    bias[77] = -1e9
    lowest = torch.finfo(torch.float32).min
    return {
        "running_var": timestamps,
        "outliers": outliers,
        "embedding": embedding,
        "exp_avg_sq": second,
        "logit_bias": bias,
        "inv_freq": 1e6 ** (-torch.arange(0, 128, 2) / 128),
        "decay": torch.exp(-torch.arange(400.0)),
        "masked_bias": torch.tensor(-1e9),
        "causal": torch.full((64, 64), lowest).triu(1),
        "counts": torch.tensor([1e-3, 2.0, 5e18]),
        "num_batches_tracked": torch.tensor(1 << 60),
        "layer_norm": 1 + plain(768),
        "huge": torch.full((64,), 1e30),
        "two_huge": torch.cat((plain(2000), torch.tensor([3e38, 3e38]))),
    }


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_odd_but_real_values_are_no_finding(tmp_path, suffix):
    path = corpus.save(real_life(), tmp_path / f"m{suffix}")
    assert everybit.verify(path).findings == ()


def test_a_damaged_second_moment_is_found_among_thirty_decades(tmp_path):
    tensors = real_life()
    path = saved(tmp_path, **tensors)
    start, _ = corpus.place_of(path, "exp_avg_sq")
    element = int(tensors["exp_avg_sq"].flatten().argsort()[-3000])
    corpus.flip(path, start + 4 * element + 3, 6)
    finding = only(path)
    assert (finding.rule, finding.where.elements) == ("FIL113", (element,))


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.float8_e4m3fn,
        torch.float8_e5m2,
    ],
)  # fmt: skip
def test_everything_that_was_trained_is_no_finding(tmp_path, dtype):
    for make in (corpus.trained_gpt, corpus.trained_cnn):
        model, state = make()
        moments = corpus.cast(corpus.flat_state(state), dtype)
        tensors = corpus.cast(model, dtype) | {f"o.{k}": v for k, v in moments.items()}
        for suffix in (".safetensors", ".pt"):
            path = corpus.save(tensors, tmp_path / f"m{suffix}")
            assert everybit.verify(path).findings == ()


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.float8_e4m3fn,
        torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
    ],
)  # fmt: skip
def test_a_single_nan_is_found_in_every_format(tmp_path, dtype):
    weight = plain(300, 200).to(dtype)
    path = saved(tmp_path, a=plain(10).to(dtype), weight=weight)
    assert everybit.verify(path).findings == ()
    pattern = b"\x80" if "fnuz" in str(dtype) else b"\xff" * dtype.itemsize
    start, _ = corpus.place_of(path, "weight")
    corpus.put(path, start + 12345 * dtype.itemsize, pattern)
    finding = only(path)
    assert (finding.rule, finding.severity) == ("FIL112", Severity.ERROR)
    assert finding.where.elements == (12345,)
    assert finding.evidence["num_nan"] == 1


def test_nan_in_optimizer_state_of_a_torch_file_is_found_though_its_checksum_holds(tmp_path):
    weights, state = corpus.trained_gpt()
    state = {k: v.clone() for k, v in corpus.flat_state(state).items()}
    state["0.exp_avg_sq"].view(-1)[5:25] = math.nan
    path = tmp_path / "m.pt"
    torch.save({"model": weights, "optimizer": state}, path)
    finding = only(path)
    assert finding.rule == "FIL112"
    assert finding.where.tensor == "optimizer.0.exp_avg_sq"
    assert finding.where.element_ranges == ((5, 25),)
    assert finding.evidence["num_nan"] == 20


def test_a_few_infinities_are_found_and_a_tensor_of_nan(tmp_path):
    weight = plain(300, 200)
    weight[7, [3, 9]] = math.inf
    path = saved(tmp_path, weight=weight, gone=torch.full((40,), math.nan))
    findings = {finding.where.tensor: finding for finding in everybit.verify(path).findings}
    assert findings["weight"].where.elements == (1403, 1409)
    assert findings["weight"].evidence["num_infinite"] == 2
    assert "all NaN" in findings["gone"].message


def test_a_run_that_diverged_is_one_finding(tmp_path):
    path = saved(tmp_path, **{f"l{i}.weight": torch.full((20, 20), math.nan) for i in range(30)})
    finding = only(path)
    assert finding.evidence["num_tensors"] == 30
    assert "diverged" in finding.message


def test_infinities_of_masks_are_no_finding(tmp_path):
    low = -math.inf
    seen = torch.tril(torch.ones(64, 64)).bool()
    suppressed = torch.zeros(50_257)
    suppressed[[5, 700, 50_256]] = low
    distance = (torch.arange(64.0)[:, None] - torch.arange(64.0)) * 0.0123
    path = saved(
        tmp_path,
        causal=torch.full((64, 64), low).triu(1),
        alibi=torch.where(seen, distance, low),
        suppressed=suppressed,
        best=torch.tensor(math.inf),
        observer=torch.full((64,), math.inf),
        first=torch.tensor([math.inf, 1.0, 2.0]),
    )
    assert everybit.verify(path).findings == ()


def test_complex_strided_and_big_endian_tensors_are_judged(tmp_path):
    base = plain(200, 300)
    waves = torch.view_as_complex(plain(128, 64, 2))
    path = tmp_path / "m.pt"
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"t": base.t(), "waves": waves}, path)
    finally:
        torch.serialization.set_crc32_options(True)
    start, _ = corpus.place_of(path, "waves")
    corpus.put(path, start + 8 * 500 + 4, struct.pack("<f", math.nan))
    start, _ = corpus.place_of(path, "t")
    corpus.flip(path, start + 4 * 301 + 3, 6)
    found = {finding.where.tensor: finding for finding in everybit.verify(path).findings}
    assert found["waves"].where.elements == (500,)
    # Storage place 301 is row 1, column 1 of the base: row 1 of its transpose, column 1.
    assert found["t"].where.elements == (1 * 200 + 1,)


def test_packed_weights_in_floating_storage_are_not_judged_as_floats(tmp_path):
    rng = torch.Generator().manual_seed(0)
    packed = torch.randint(0, 256, (20_000,), generator=rng, dtype=torch.uint8)
    packed = packed.view(torch.bfloat16).reshape(-1, 1)
    assert packed.isnan().any()
    path = saved(tmp_path, **{"q.weight": packed, "q.weight.absmax": plain(300).abs()})
    assert everybit.verify(path).findings == ()


def test_thousands_of_small_tensors_are_judged_one_by_one(tmp_path):
    tensors = {f"layers.{index}.bias": plain(40, seed=index) + 1 for index in range(4000)}
    path = saved(tmp_path, **tensors)
    assert everybit.verify(path).findings == ()
    start, _ = corpus.place_of(path, "layers.3777.bias")
    corpus.put(path, start + 4 * 33, struct.pack("<f", math.nan))
    finding = only(path)
    assert (finding.where.tensor, finding.where.elements) == ("layers.3777.bias", (33,))


def written_by_hand(path, header, data):
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def test_tensors_at_odd_offsets_are_judged_to_their_last_element(tmp_path):
    count = 300_000  # more than one chunk, so that elements are cut by its end
    values = plain(count)
    for spaces in range(4):
        header = {
            "w" + " " * spaces: {"dtype": "F32", "shape": [count], "data_offsets": [0, 4 * count]}
        }
        path = written_by_hand(tmp_path / "m.safetensors", header, values.numpy().tobytes())
        assert everybit.verify(path).findings == ()
        start, _ = corpus.place_of(path, "w" + " " * spaces)
        chunk = 512 * 1024
        for element in (0, (chunk - start) // 4, (chunk - start) // 4 - 1, count - 1):
            corpus.put(path, start + 4 * element, struct.pack("<f", math.nan))
            assert only(path).where.elements == (element,)
            corpus.put(path, start + 4 * element, values[element].numpy().tobytes())


def test_a_header_that_promises_more_than_there_is_takes_no_time(tmp_path):
    size = 1 << 60
    header = {"w": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}
    data = struct.pack("<f", math.nan) * 3000
    path = written_by_hand(tmp_path / "m.safetensors", header, data)
    assert "FIL104" in {finding.rule for finding in everybit.verify(path).findings}

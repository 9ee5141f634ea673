"""Every class of difference, with the nearest thing that looks like it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from everybit.core.dtype import ITEMSIZE
from everybit.diff.stored import StoredTensor
from everybit.diff.tensors import diff_tensors

Arrays = dict[str, np.ndarray]


def stored(name: str, data: bytes, dtype: str, shape, *, offset=None, path="m.bin") -> StoredTensor:
    return StoredTensor(
        path=path,
        name=name,
        dtype=dtype,
        shape=tuple(shape),
        num_bytes=len(data),
        storage=(name,),
        read=lambda start, end: data[start:end],
        offset=offset,
    )


def side(arrays: Arrays, *, at: int | None = 512) -> list[StoredTensor]:
    """Tensors of a file that lie one after the other, aligned to 64 bytes."""
    found = []
    for name, array in arrays.items():
        data = array.tobytes()
        dtype = "bfloat16" if array.dtype == np.uint16 else str(array.dtype)
        found.append(stored(name, data, dtype, array.shape, offset=at))
        if at is not None:
            at += -(-len(data) // 64) * 64
    return found


def compare(a: Arrays, b: Arrays, **how):
    return diff_tensors([(side(a), side(b))], **how)


def model(seed: int = 0, layers: int = 4) -> Arrays:
    rng = np.random.default_rng(seed)
    found: Arrays = {}
    for layer in range(layers):
        found[f"h.{layer}.weight"] = (0.02 * rng.normal(size=(96, 64))).astype("f4")
        found[f"h.{layer}.bias"] = (0.01 * rng.normal(size=96)).astype("f4")
    return found


def changed(arrays: Arrays, **arrays_b) -> Arrays:
    return {**arrays, **{key.replace("_", "."): value for key, value in arrays_b.items()}}


def only(outcome):
    json.dumps(outcome.comparison, allow_nan=False)
    (finding,) = outcome.findings
    json.dumps(finding.to_json(), allow_nan=False)
    return finding.evidence["class"], finding


W = "h.1.weight"


def with_w(a: Arrays, value) -> Arrays:
    return {**a, W: np.ascontiguousarray(value)}


def trained(a: Arrays, rate: float = 1e-4, seed: int = 9) -> Arrays:
    rng = np.random.default_rng(seed)
    return {
        name: (
            value * (1 - rate) - rate * rng.choice([-1, 1], value.shape) * rng.random(value.shape)
        ).astype("f4")
        for name, value in a.items()
    }


def bf16(value: np.ndarray) -> np.ndarray:
    """Round to bfloat16 and back, by the bits."""
    bits = value.view("u4").astype("u8")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype("u4").view("f4")


def test_equal_models_are_identical() -> None:
    out = compare(model(), model())
    assert out.findings == ()
    assert out.comparison["class"] == "identical"
    assert out.comparison["meaning"] == "equal"


def test_one_flipped_bit_is_a_single_element() -> None:
    a = model()
    hit = a[W].copy()
    hit.view("u4")[3, 7] ^= 1 << 30
    found, finding = only(compare(a, with_w(a, hit)))
    assert found == "single element"
    assert finding.evidence["bits"] == [30]
    assert finding.evidence["element"] == 3 * 64 + 7
    assert finding.evidence["meaning"] == "damage"


def test_a_run_of_foreign_values_against_rows_of_an_embedding_that_were_trained() -> None:
    a = model()
    hit = a[W].copy()
    hit.ravel()[100:140] = np.random.default_rng(1).normal(size=40) * 1e3
    found, finding = only(compare(a, with_w(a, hit)))
    assert found == "run"
    assert finding.evidence["element_range"] == [100, 140]
    rows = a[W].copy()
    rows[10:14] -= 1e-4
    assert only(compare(a, with_w(a, rows)))[0] == "training step"


@pytest.mark.parametrize("fill", ["zeros", "foreign"])
def test_a_lost_page_against_genuine_zeros(fill) -> None:
    a = model()
    tensors = side(a)
    offset = next(each.offset for each in tensors if each.name == W)
    start = -(-offset // 4096) * 4096
    raw = bytearray(a[W].tobytes())
    low = start - offset
    raw[low : low + 4096] = bytes(4096) if fill == "zeros" else np.random.default_rng(2).bytes(4096)
    b = with_w(a, np.frombuffer(bytes(raw), "f4").reshape(a[W].shape))
    found, finding = only(compare(a, b))
    assert found == "page"
    assert finding.evidence["kind"] == "corruption"
    assert finding.evidence["file_range"] == [start, start + 4096]
    # A row that was set to zero (padding of an embedding) is no page.
    row = a[W].copy()
    row[5] = 0
    assert only(compare(a, with_w(a, row)))[0] == "run"


def test_a_page_over_several_small_tensors_is_one_finding() -> None:
    rng = np.random.default_rng(3)
    a = {f"norm.{k}": rng.normal(size=128).astype("f4") for k in range(40)}
    b = {name: value.copy() for name, value in a.items()}
    for name, tensor in zip(a, side(a), strict=True):
        if 4096 <= tensor.offset < 8192:
            b[name][:] = 0
    found, finding = only(compare(a, b))
    assert found in ("all zeros", "page")
    assert finding.evidence["num_tensors"] == 8
    assert finding.where.byte_range == (4096, 8192)


def test_zeros_throughout() -> None:
    a = model()
    found, finding = only(compare(a, with_w(a, np.zeros_like(a[W]))))
    assert found == "all zeros"
    assert finding.where.tensor == W


def test_scale_by_two_against_a_training_step() -> None:
    a = model()
    found, finding = only(compare(a, with_w(a, a[W] * 2)))
    assert (found, finding.evidence["factor"]) == ("scale", 2.0)
    assert finding.evidence["power_of_two"] == 1
    found, finding = only(compare(a, with_w(a, (a[W] * np.float32(0.125**0.5)))))
    assert found == "scale"
    assert finding.evidence["factor"] == pytest.approx(0.125**0.5, rel=1e-6)
    out = compare(a, trained(a))
    found, finding = only(out)
    assert found == "training step"
    assert finding.evidence["num_moved"] == len(a)
    assert out.comparison["meaning"] == "another model"


def test_a_negated_tensor() -> None:
    a = model()
    assert only(compare(a, with_w(a, -a[W])))[0] == "sign"


def test_permuted_rows_against_new_values() -> None:
    a = model()
    order = np.random.default_rng(4).permutation(96)
    found, finding = only(compare(a, with_w(a, a[W][order])))
    assert found == "permuted"
    assert finding.evidence["axis"] == 0
    assert finding.evidence["permutation"][:5] == order[:5].tolist()
    found, finding = only(compare(a, with_w(a, a[W][:, ::-1])))
    assert (finding.evidence["axis"], finding.evidence["order"]) == (1, "reversed")
    rotary = np.arange(96).reshape(6, 2, 8).swapaxes(1, 2).ravel()
    assert "rotary" in only(compare(a, with_w(a, a[W][rotary])))[1].evidence["order"]
    new = (0.02 * np.random.default_rng(5).normal(size=a[W].shape)).astype("f4")
    assert only(compare(a, with_w(a, new)))[0] == "re-initialised"


def test_two_exchanged_rows_are_named() -> None:
    a = model()
    hit = a[W].copy()
    hit[[3, 50]] = hit[[50, 3]]
    found, finding = only(compare(a, with_w(a, hit)))
    assert (found, finding.evidence["order"]) == ("permuted", "3 and 50 exchanged")


def test_transposed_against_a_wrong_view_of_the_same_bytes() -> None:
    a = model()
    turned = side(with_w(a, a[W].T.copy()))
    found, _ = only(diff_tensors([(side(a), turned)]))
    assert found == "transposed"
    square = {"w": np.random.default_rng(6).normal(size=(64, 64)).astype("f4")}
    assert only(compare(square, {"w": square["w"].T.copy()}))[0] == "transposed"
    viewed = with_w(a, a[W].reshape(64, 96))
    assert only(compare(a, viewed))[0] == "other form"


def test_exchanged_tensors_are_one_finding_and_optimizer_slots_are_named() -> None:
    a = model()
    b = {**a, W: a["h.2.weight"], "h.2.weight": a[W]}
    found, finding = only(compare(a, b))
    assert found == "swapped"
    assert finding.evidence["partner"] == "h.2.weight"
    rng = np.random.default_rng(7)
    for index in range(2):
        a[f"optimizer.state.{index}.exp_avg"] = rng.normal(size=(96, 64)).astype("f4")
        a[f"optimizer.state.{index}.exp_avg_sq"] = rng.random((96, 64)).astype("f4")
    one, other = "optimizer.state.0.exp_avg", "optimizer.state.0.exp_avg_sq"
    found, finding = only(compare(a, {**a, one: a[other], other: a[one]}))
    assert found == "swapped"
    assert "slots of one parameter" in finding.message
    other = "optimizer.state.1.exp_avg"
    found, finding = only(compare(a, {**a, one: a[other], other: a[one]}))
    assert "another parameter's state" in finding.message


def test_a_training_step_moves_state_and_counters_and_is_one_finding() -> None:
    a = model()
    rng = np.random.default_rng(8)
    for index in range(4):
        a[f"optimizer.state.{index}.exp_avg"] = (1e-3 * rng.normal(size=(96, 64))).astype("f4")
        a[f"optimizer.state.{index}.exp_avg_sq"] = (1e-6 * rng.random((96, 64))).astype("f4")
        a[f"optimizer.state.{index}.step"] = np.array(100, "f4")
    b = trained(a)
    for name in a:
        if name.endswith("exp_avg"):
            b[name] = (0.9 * a[name] + 1e-3 * rng.normal(size=(96, 64))).astype("f4")
        if name.endswith("exp_avg_sq"):
            b[name] = (0.999 * a[name] + 1e-7 * rng.random((96, 64))).astype("f4")
        if name.endswith("step"):
            b[name] = np.array(101, "f4")
    found, finding = only(compare(a, b))
    assert found == "training step"
    assert finding.evidence["counters"][0] == {
        "name": "optimizer.state.0.step",
        "before": 100.0,
        "after": 101.0,
    }


def test_a_damaged_value_inside_a_training_step_stands_out() -> None:
    a = model()
    b = trained(a)
    b[W].view("u4")[3, 7] ^= 1 << 30
    out = compare(a, b)
    assert [finding.evidence["class"] for finding in out.findings] == [
        "single element",
        "training step",
    ]
    assert out.findings[0].where.elements == (3 * 64 + 7,)
    assert out.comparison["meaning"] == "damage"


def test_rounding_noise_against_a_bf16_round_trip_and_a_training_step() -> None:
    a = model()
    rng = np.random.default_rng(10)
    noisy = {
        name: (value.view("i4") + rng.integers(-3, 4, value.shape, dtype="i4")).view("f4")
        for name, value in a.items()
    }
    out = compare(a, noisy)
    found, finding = only(out)
    assert (found, finding.evidence["kind"]) == ("rounding", "noise")
    assert out.comparison["meaning"] == "harmless"
    found, finding = only(compare(a, {name: bf16(value) for name, value in a.items()}))
    assert (found, finding.evidence["rounded_to"]) == ("dtype round trip", "bfloat16")
    assert finding.evidence["rounded_side"] == "B"
    assert str(finding.severity) == "warning"
    assert finding.evidence["num_tensors"] == len(a)
    # One value off among the rounded is no round trip.
    off = {name: bf16(value) for name, value in a.items()}
    off[W] = off[W].copy()
    off[W][0, 0] *= 1.5
    classes = {f.evidence["class"] for f in compare(a, off).findings}
    assert "dtype round trip" in classes
    assert len(classes) == 2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_model_stored_in_another_dtype(dtype) -> None:
    a = model()
    if dtype == "float16":
        b = {name: value.astype("f2") for name, value in a.items()}
    else:
        b = {name: (bf16(v).view("u4") >> 16).astype("u2") for name, v in a.items()}
    found, finding = only(compare(a, b))
    assert (found, finding.evidence["rounded_to"]) == ("dtype round trip", dtype)
    assert finding.evidence["kind"] == "config"
    found, finding = only(compare(b, a))
    assert finding.evidence["rounded_side"] == "A"


def test_a_widened_model_holds_equal_values() -> None:
    a = {name: value.astype("f2") for name, value in model().items()}
    found, finding = only(compare(a, {name: value.astype("f4") for name, value in a.items()}))
    assert (found, str(finding.severity)) == ("dtype widened", "note")


def test_overflow_in_float16_is_a_fault() -> None:
    a = model()
    a[W][2, 3] = 70000.0
    with np.errstate(over="ignore"):
        b = {name: value.astype("f2").astype("f4") for name, value in a.items()}
    out = compare(a, b)
    assert out.findings[0].evidence["class"] == "dtype overflow"
    assert out.findings[0].evidence["num_overflowed"] == 1
    assert str(out.findings[0].severity) == "error"
    assert out.comparison["meaning"] == "damage"


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float16", "bfloat16"])
def test_rounding_is_torchs_own(dtype) -> None:
    import torch

    from everybit.diff.rounding import round_to

    values = torch.cat([torch.randn(20000), torch.randn(20000) * 1e-3, torch.rand(2000) * 2e-8])
    there = values.to(getattr(torch, dtype)).to(torch.float64).numpy()
    assert (round_to(dtype, values.double().numpy()) == there).all()
    large = np.array([65504.0, 65519.0, 65520.0, 3.39e38, 3.4e38, -3.4e38, np.inf, np.nan])
    found = round_to("float16", large)
    assert found[:2].tolist() == [65504.0, 65504.0]
    assert (np.abs(found[2:6]) > 65504).all()
    assert np.isfinite(round_to("bfloat16", large)[:6]).all()


def batch_norm(a: Arrays) -> Arrays:
    rng = np.random.default_rng(11)
    a = dict(a)
    for layer in range(2):
        a[f"bn.{layer}.weight"] = np.ones(32, "f4")
        a[f"bn.{layer}.running_mean"] = rng.normal(size=32).astype("f4")
        a[f"bn.{layer}.running_var"] = rng.random(32).astype("f4") + 0.5
        a[f"bn.{layer}.num_batches_tracked"] = np.array(10, "i8")
    return a


def test_batchnorm_statistics_alone_against_a_poisoned_variance() -> None:
    a = batch_norm(model())
    b = dict(a)
    for layer in range(2):
        b[f"bn.{layer}.running_mean"] = (a[f"bn.{layer}.running_mean"] * 0.9 + 0.01).astype("f4")
        b[f"bn.{layer}.running_var"] = (a[f"bn.{layer}.running_var"] * 0.9 + 0.1).astype("f4")
        b[f"bn.{layer}.num_batches_tracked"] = np.array(12, "i8")
    out = compare(a, b)
    assert only(out)[0] == "BatchNorm statistics"
    assert out.comparison["meaning"] == "harmless"
    poisoned = dict(a)
    poisoned["bn.0.running_var"] = a["bn.0.running_var"].copy()
    poisoned["bn.0.running_var"][3] = np.inf
    assert only(compare(a, poisoned))[0] == "single element"
    b["bn.0.running_var"] = b["bn.0.running_var"].copy()
    b["bn.0.running_var"][3] = -1.0
    assert compare(a, b).comparison["meaning"] != "harmless"


def test_prefix_partial_prefix_and_a_damaged_name() -> None:
    a = model()
    wrapped = {f"module.{name}": value for name, value in a.items()}
    out = compare(a, wrapped)
    assert out.findings == ()
    assert out.comparison["class"] == "prefix"
    # Wrapped, and one tensor short: still under the prefix.
    short = dict(list(wrapped.items())[1:])
    found, finding = only(compare({**a, "extra.w": np.arange(5, dtype="f4")}, wrapped))
    assert found == "missing"
    found, finding = only(compare(a, short))
    assert (found, finding.where.tensor) == ("missing", "h.0.weight")
    flipped = {("h.1.weighu" if name == W else name): value for name, value in a.items()}
    found, finding = only(compare(a, flipped))
    assert found == "name damaged"
    assert finding.evidence["name_b"] == "h.1.weighu"
    renamed = {name.replace("h.", "blocks."): value for name, value in a.items()}
    out = compare(a, renamed)
    found, finding = only(out)
    assert found == "renamed"
    assert str(finding.severity) == "warning"


def test_buffers_that_models_compute_are_missed_without_harm() -> None:
    a = {**model(), "rope.inv_freq": np.arange(8, dtype="f4")}
    out = compare(a, model())
    found, finding = only(out)
    assert (found, str(finding.severity)) == ("missing", "note")
    assert out.comparison["meaning"] == "harmless"


def test_another_model_of_the_same_form() -> None:
    out = compare(model(), model(seed=99))
    found, finding = only(out)
    assert found == "re-initialised"
    assert finding.evidence["num_tensors"] == 8
    assert out.comparison["meaning"] == "another model"
    assert out.first.kind == "init"


@pytest.mark.parametrize("dtype", ["complex64", "int64", "bool", "float8_e4m3fn", "bits8"])
def test_every_dtype_has_a_class(dtype) -> None:
    size = ITEMSIZE.get(dtype, 1)
    data = bytes(range(256)) * size
    other = bytearray(data)
    other[17 * size] ^= 1
    a = [stored("w", data, dtype, (256,))]
    b = [stored("w", bytes(other), dtype, (256,))]
    assert only(diff_tensors([(a, b)]))[0] == "single element"
    c = [stored("w", data[::-1], dtype, (256,))]
    only(diff_tensors([(a, c)]))


def test_a_zero_dimensional_an_empty_and_a_constant_tensor() -> None:
    a = {"n": np.array(3, "i8"), "e": np.zeros((0, 4), "f4"), "c": np.ones(8, "f4")}
    assert compare(a, a).findings == ()
    assert only(compare(a, {**a, "n": np.array(4, "i8")}))[0] == "single element"
    assert only(compare(a, {**a, "c": np.zeros(8, "f4")}))[0] == "all zeros"


def test_every_flipped_bit_is_one_element_at_its_place() -> None:
    """Whatever the bit does to the value, and whatever its tensor is for."""
    rng = np.random.default_rng(12)
    a = batch_norm(model())
    a["half"] = rng.normal(size=500).astype("f2")
    a["optimizer.state.0.exp_avg_sq"] = (1e-8 * rng.random((96, 64))).astype("f4")
    a["optimizer.state.0.step"] = np.array(100, "f4")
    names = list(a)
    for _ in range(300):
        name = names[rng.integers(len(names))]
        raw = bytearray(a[name].tobytes())
        bit = int(rng.integers(8 * len(raw)))
        raw[bit // 8] ^= 1 << bit % 8
        hit = np.frombuffer(bytes(raw), a[name].dtype).reshape(a[name].shape)
        found, finding = only(compare(a, {**a, name: hit}))
        width = 8 * a[name].itemsize
        assert (found, finding.where.tensor) == ("single element", name)
        assert finding.evidence["element"] == bit // width
        assert finding.evidence["bits"] == [bit % width]


def test_a_few_scattered_elements_are_no_training() -> None:
    a = model()
    hit = a[W].copy()
    for place in (5, 900, 2500, 4000):
        hit.flat[place] *= 1.1
    out = compare(a, with_w(a, hit))
    assert only(out)[0] == "unknown"
    assert "here and there" in out.findings[0].message
    assert out.comparison["meaning"] == "unknown"


def test_many_steps_that_grow_what_began_near_zero_are_no_damage() -> None:
    rng = np.random.default_rng(13)
    a = model()
    a["h.0.bias"] = (1e-5 * rng.normal(size=96)).astype("f4")
    b = trained(a, rate=1e-2)
    b["h.0.bias"] = (3e-4 * rng.normal(size=96)).astype("f4")
    assert only(compare(a, b))[0] == "training step"


def test_a_few_units_of_the_last_place_in_several_tensors_are_rounding() -> None:
    a = model()
    b = {name: value.copy() for name, value in a.items()}
    for name in list(a)[:3]:
        b[name].view("i4").flat[5] += 1
    assert only(compare(a, b))[0] == "rounding"
    one = with_w(a, a[W].copy())
    one[W].view("i4").flat[5] += 1
    assert only(compare(a, one))[0] == "single element"

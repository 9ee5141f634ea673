from __future__ import annotations

import json
from math import prod

import numpy as np
import pytest

from everybit.core.dtype import ITEMSIZE
from everybit.core.tree import tree_digest
from everybit.diff import stored as stored_module
from everybit.diff.elements import MAX_RANGES, changed_elements
from everybit.diff.stored import StoredTensor
from everybit.diff.tensors import MAX_FINDINGS, diff_tensors


def stored(name: str, data: bytes, dtype: str = "float32", shape=None, **fields) -> StoredTensor:
    shape = (len(data) // ITEMSIZE.get(dtype, 1),) if shape is None else shape
    return StoredTensor(
        **{
            "path": "model.pt",
            "name": name,
            "dtype": dtype,
            "shape": shape,
            "num_bytes": len(data),
            "tree": tree_digest(dtype, shape, data),
            "storage": (name,),
            "read": lambda start, end: data[start:end],
            **fields,
        }
    )


def values(count: int, seed: int = 0) -> bytearray:
    return bytearray(np.random.default_rng(seed).normal(size=count).astype("<f4").tobytes())


def flipped(data: bytes, *bits: int) -> bytes:
    copy = bytearray(data)
    for bit in bits:
        copy[bit // 8] ^= 1 << bit % 8
    return bytes(copy)


def test_equal_tensors_are_clean_in_any_order() -> None:
    a = [stored("w", bytes(values(10))), stored("b", bytes(values(3, 1)))]
    found = diff_tensors([(a, a[::-1])])
    assert found.findings == ()
    assert found.first is None
    assert found.coverage.skipped == ()
    assert found.stats == {"tensors": 2, "bytes": 52, "differing": 0}


@pytest.mark.parametrize("bit", [0, 31, 32 * 999 + 30])
def test_one_flipped_bit_is_named(bit: int) -> None:
    data = bytes(values(1000))
    found = diff_tensors([([stored("w", data)], [stored("w", flipped(data, bit))])])
    (finding,) = found.findings
    assert finding.where.elements == (bit // 32,)
    assert finding.where.tensor == "w"
    assert [change["bits"] for change in finding.evidence["changes"]] == [[bit % 32]]
    assert finding.evidence["num_bits"] == 1
    assert finding.evidence["digest_a"].startswith("tree:")
    assert found.first.kind == "unknown"
    assert f"element {bit // 32}, bit {bit % 32}" in finding.message
    json.dumps(finding.to_json(), allow_nan=False)


@pytest.mark.parametrize("dtype", [*ITEMSIZE, "bits8"])
def test_every_dtype_is_compared_bit_for_bit(dtype: str) -> None:
    size = ITEMSIZE.get(dtype, 1)
    data = bytes(range(1, 1 + 6 * size))
    changed = changed_elements(
        stored("w", data, dtype, (2, 3)), stored("w", flipped(data, 8 * size * 4), dtype, (2, 3))
    )
    assert (changed.num_elements, changed.num_bits) == (1, 1)
    assert [(c.element, c.bits) for c in changed.changes] == [(4, (0,))]


def test_zero_dimensional_and_empty_tensors() -> None:
    one, other = bytes(values(1)), bytes(values(1, 9))
    changed = changed_elements(stored("w", one, shape=()), stored("w", other, shape=()))
    assert changed.place == {"elements": (0,)}
    empty = [stored("w", b"", shape=(0, 3))]
    assert diff_tensors([(empty, empty)]).first is None


def test_many_elements_are_told_as_ranges_across_chunks(monkeypatch) -> None:
    monkeypatch.setattr(stored_module, "CHUNK_BYTES", 256)
    data = bytes(values(1000))
    spans = [(60, 70), (128, 129), (300, 500)]
    other = bytearray(data)
    for begin, end in spans:
        for at in range(4 * begin, 4 * end, 4):
            other[at] ^= 0x10
    changed = changed_elements(stored("w", data), stored("w", bytes(other)))
    assert changed.num_elements == changed.num_bits == sum(end - begin for begin, end in spans)
    assert changed.place == {"element_ranges": tuple(spans)}
    assert changed.whole
    assert [change.element for change in changed.changes] == [*range(60, 70), 128, *range(300, 305)]


def test_ranges_beyond_the_limit_are_covered_and_said_to_be_inexact(monkeypatch) -> None:
    monkeypatch.setattr(stored_module, "CHUNK_BYTES", 512)
    data = bytes(values(4000))
    other = bytearray(data)
    for element in range(0, 4000, 2):
        other[4 * element] ^= 1
    changed = changed_elements(stored("w", data), stored("w", bytes(other)))
    assert changed.num_elements == 2000
    assert len(changed.ranges) == MAX_RANGES
    assert changed.ranges[-1][1] == 3999
    assert not changed.whole
    found = diff_tensors([([stored("w", data)], [stored("w", bytes(other))])])
    assert found.findings[0].evidence["element_ranges_whole"] is False


def test_dtype_shape_and_names_that_differ() -> None:
    data = bytes(values(6))
    a = [stored("w", data), stored("same", data), stored("gone", bytes(values(6, 1)))]
    b = [
        stored("w", data, shape=(2, 3)),
        stored("same", data),
        stored("new", bytes(values(6, 2))),
    ]
    found = diff_tensors([(a, b)])
    by_name = {finding.where.tensor: finding for finding in found.findings}
    assert by_name.keys() == {"w", "gone", "new"}
    assert by_name["w"].message == "w: float32[6] in A, float32[2, 3] in B"
    assert by_name["gone"].evidence["only_in"] == "A"
    assert by_name["new"].evidence["kind"] == "missing"
    assert by_name["new"].evidence["class"] == "extra"
    cast = diff_tensors([([stored("w", data)], [stored("w", data, "int32")])])
    assert "float32 in A, int32 in B" in cast.findings[0].message


def test_negative_zero_and_nan_payloads_are_bits_like_others() -> None:
    zero, minus = np.float32(0.0).tobytes(), np.float32(-0.0).tobytes()
    nan = np.uint32(0x7FC00000).tobytes()
    other_nan = np.uint32(0x7FC00001).tobytes()
    assert diff_tensors([([stored("w", zero)], [stored("w", minus)])]).first is not None
    found = diff_tensors([([stored("w", nan)], [stored("w", other_nan)])])
    assert found.findings[0].evidence["changes"][0]["before"] == "NaN"
    assert diff_tensors([([stored("w", nan)], [stored("w", nan)])]).first is None


def test_a_prefix_across_formats_is_seen_through_and_what_lies_beside_it_told() -> None:
    data = bytes(values(6))
    a = [stored("model.w", data), stored("optimizer.state.0.exp_avg", data)]
    b = [stored("w", data, path="model.safetensors")]
    found = diff_tensors([(a, b)])
    assert found.first is None
    assert {skip.what: skip.promised for skip in found.coverage.skipped} == {
        "names": False,
        "tensors": False,
    }
    other = [stored("w", flipped(data, 3), path="model.safetensors")]
    evidence = diff_tensors([(a, other)]).findings[0].evidence
    assert (evidence["name_a"], evidence["name_b"]) == ("model.w", "w")
    assert (evidence["path_a"], evidence["path_b"]) == ("model.pt", "model.safetensors")


def test_a_second_name_for_the_same_bytes_is_no_difference() -> None:
    data = bytes(values(6))
    a = [stored("wte", data, storage=("x",)), stored("lm_head", data, storage=("x",))]
    tied = diff_tensors([(a, [stored("wte", data)])])
    assert tied.first is None
    assert "tied" in tied.coverage.skipped[0].why
    assert tied.comparison["class"] == "tied"
    # Written twice, as safetensors has to, it is tied as well.
    a[1] = stored("lm_head", data, storage=("y",))
    assert diff_tensors([(a, [stored("wte", data)])]).comparison["class"] == "tied"
    a[1] = stored("lm_head", flipped(data, 3), storage=("y",))
    assert diff_tensors([(a, [stored("wte", data)])]).first.kind == "missing"


def test_norms_are_not_tied_for_being_all_ones() -> None:
    ones = np.ones(16, "<f4").tobytes()
    a = [stored("norm.1.weight", ones), stored("norm.2.weight", ones)]
    found = diff_tensors([(a, a[:1])])
    assert found.first.kind == "missing"
    assert found.comparison["meaning"] == "incomplete"


def test_a_tensor_that_cannot_be_read_leaves_the_verdict_open() -> None:
    data = bytes(values(6))
    a, b = (
        [stored("w", data), stored("packed", data, tree=None, unreadable="a compressed member")]
        for _ in range(2)
    )
    found = diff_tensors([(a, b)])
    assert found.first is None
    (skip,) = found.coverage.skipped
    assert (skip.what, skip.why, skip.promised) == (
        "tensor packed",
        "a compressed member",
        True,
    )


def test_of_very_many_differing_tensors_all_are_named_and_some_are_placed() -> None:
    data = bytes(values(4))
    names = [f"layer.{k}" for k in range(MAX_FINDINGS + 30)]
    a = [stored(name, data) for name in names]
    b = [stored(name, flipped(data, 30)) for name in names]
    found = diff_tensors([(a, b)])
    assert len(found.findings) == MAX_FINDINGS
    assert [row["tensor"] for row in found.comparison["tensors"]] == names
    assert found.stats["differing"] == len(names)
    assert not found.coverage.skipped[0].promised


def test_the_shape_is_part_of_the_name_of_the_value() -> None:
    assert prod(stored("w", bytes(values(6)), shape=(3, 2)).shape) == 6
    assert stored("w", bytes(values(6)), shape=(3, 2)).itemsize == 4

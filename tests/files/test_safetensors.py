from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.files import makers

from everybit.core.errors import DamagedError
from everybit.core.tree import tree_digest
from everybit.files import read_tensor_bytes, read_tensors

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16,
    torch.uint32, torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.complex64, torch.float8_e4m3fn, torch.float8_e5m2,
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_reads_as_safetensors_reads_it(dtype, tmp_path):
    path = tmp_path / "m.safetensors"
    raw = torch.randint(0, 2 if dtype is torch.bool else 256, (240,), dtype=torch.uint8)
    base = raw.view(dtype)
    save_file({"a": base, "m": base.clone().reshape(5, -1), "e": base[:0].clone()}, path)
    loaded = load_file(path)
    found = read_tensors(path).by_name()
    assert set(found) == set(loaded)
    for name, tensor in loaded.items():
        data = makers.canonical(tensor)
        stored = found[name]
        assert (stored.dtype, stored.shape) == (str(dtype)[6:], tuple(tensor.shape))
        assert stored.tree == tree_digest(stored.dtype, stored.shape, data)
        assert read_tensor_bytes(path, stored, 3, 9) == data[3:9]


def test_half_byte_floats_have_the_shape_that_torch_gives_them(tmp_path):
    raw = bytes(range(12))
    path = write(tmp_path, {"w": entry("F4", [3, 8], 0, 12)}, raw)
    (tensor,) = read_tensors(path).tensors
    assert (tensor.dtype, tensor.shape) == ("float4_e2m1fn_x2", (3, 4))
    assert read_tensor_bytes(path, tensor) == raw


def entry(dtype, shape, start, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def write(folder, header, data=b"", *, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path = folder / "m.safetensors"
    size = len(text) if length is None else length
    path.write_bytes(size.to_bytes(8, "little") + text + data)
    return path


GOOD = {"a": entry("F32", [2], 0, 8), "b": entry("U8", [4], 8, 12)}


@pytest.mark.parametrize(
    ("header", "data", "rule", "told"),
    [
        (GOOD, b"x" * 11, "FIL104", "11 of 12|30 of|1 of 2 tensors"),
        (GOOD, b"x" * 13, "FIL107", "1 bytes follow"),
        ({"a": entry("F32", [2], 0, 7)}, b"x" * 7, "FIL107", "takes 8 bytes"),
        ({"a": entry("F33", [2], 0, 8)}, b"x" * 8, "FIL107", "not known"),
        ({"a": entry(["F32"], [2], 0, 8)}, b"x" * 8, "FIL107", "not known"),
        ({"a": entry("U8", [2], 0, 2), "b": entry("U8", [2], 1, 3)}, b"xxx", "FIL107", "overlap"),
        ({"a": entry("U8", [2], 0, 2), "b": entry("U8", [2], 3, 5)}, b"xxxxx", "FIL107", "hole"),
        ({"a": entry("U8", [-1], 0, 1)}, b"x", "FIL107", "no list of sizes"),
        ({"a": entry("U8", [True], 0, 1)}, b"x", "FIL107", "no list of sizes"),
        ({"a": entry("U8", [1 << 40] * 2, 0, 1)}, b"x", "FIL107", "2\\^62"),
        ({"a": entry("U8", [1] * 70, 0, 1)}, b"x", "FIL107", "70 dimensions"),
        ({"a": {**entry("U8", [1], 0, 1), "x": 1}}, b"x", "FIL107", "other keys"),
        ({"a": 3}, b"x", "FIL107", "other keys"),
        ({"__metadata__": {"a": 3}}, b"", "FIL107", "no table of texts"),
        (b'{"a":{},"a":{}}', b"", "FIL107", "stands twice"),
        (b'{"a":', b"", "FIL107", "not JSON"),
        (b'{"a":NaN}', b"", "FIL107", "nesting or a number"),
        (b'{"a":' + b"[" * 100_000, b"", "FIL107", "nesting"),
        (b'{"\xff":1}', b"", "FIL107", "not UTF-8"),
        (b'{"a":' + b"9" * 5000 + b"}", b"", "FIL107", "nesting or a number"),
    ],
)
def test_a_header_that_cannot_be_right(tmp_path, header, data, rule, told):
    path = write(tmp_path, header, data)
    with pytest.raises(DamagedError, match=told) as caught:
        read_tensors(path)
    assert caught.value.rule == rule


def test_the_length_field(tmp_path):
    with pytest.raises(DamagedError, match="FIL107"):
        read_tensors(write(tmp_path, GOOD, b"x" * 12, length=1 << 60))
    with pytest.raises(DamagedError, match="FIL104"):
        read_tensors(write(tmp_path, GOOD, b"x" * 12, length=5000))
    with pytest.raises(DamagedError, match="FIL107"):
        read_tensors(write(tmp_path, GOOD, b"x" * 12, length=20))


def test_nothing_is_wrong_with_an_empty_or_padded_file(tmp_path):
    assert read_tensors(write(tmp_path, {})).tensors == ()
    padded = json.dumps(GOOD).encode() + b"  \n "
    assert len(read_tensors(write(tmp_path, padded, b"x" * 12)).tensors) == 2

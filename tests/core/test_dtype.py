"""Raw bytes as numbers: every value of the small float types, against torch and numpy."""

from __future__ import annotations

import math
import random
import struct

import numpy as np
import pytest

from everybit.core.dtype import ITEMSIZE, decode, json_number


def _same(a, b):
    if isinstance(a, float) and math.isnan(a):
        return math.isnan(b)
    return a == b and math.copysign(1, a) == math.copysign(1, b)


@pytest.mark.parametrize(
    "dtype",
    ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"],
)
def test_all_256_values_of_the_8_bit_floats(dtype):
    torch = pytest.importorskip("torch")
    raw = torch.arange(256, dtype=torch.uint8)
    # Straight to float64 is not implemented for all of them; float32 holds every value.
    expected = raw.view(getattr(torch, dtype)).float().double().tolist()
    for byte, value in enumerate(expected):
        assert _same(value, float(decode(dtype, bytes([byte])))), (byte, value)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_all_65536_values_of_the_16_bit_floats(dtype):
    torch = pytest.importorskip("torch")
    raw = torch.arange(65536, dtype=torch.int32).to(torch.uint16)
    expected = raw.view(getattr(torch, dtype)).double().tolist()
    for word, value in enumerate(expected):
        assert _same(value, decode(dtype, struct.pack("<H", word))), (word, value)


@pytest.mark.parametrize(
    "dtype",
    ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32",
     "float64", "complex64", "complex128"],
)  # fmt: skip
def test_the_other_types_against_numpy(dtype):
    raw = random.Random(3).randbytes(64 * ITEMSIZE[dtype])
    for index, value in enumerate(np.frombuffer(raw, np.dtype(dtype).newbyteorder("<"))):
        start = index * ITEMSIZE[dtype]
        found = decode(dtype, raw[start : start + ITEMSIZE[dtype]])
        np.testing.assert_equal(np.dtype(dtype).type(found), value)


def test_every_torch_dtype_of_whole_bytes_is_known():
    torch = pytest.importorskip("torch")
    known = {str(value).removeprefix("torch.") for value in vars(torch).values()
             if isinstance(value, torch.dtype)}  # fmt: skip
    # Sub-byte and raw bit types have no elements that could be stored or changed by name.
    raw = {name for name in known if name.startswith(("bits", "int", "uint")) and name not in
           {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}}  # fmt: skip
    assert known - raw - set(ITEMSIZE) == set()
    for name in ITEMSIZE:
        if hasattr(torch, name):
            assert ITEMSIZE[name] == getattr(torch, name).itemsize


def test_bad_input_is_refused():
    with pytest.raises(KeyError):
        decode("float7", b"\0")
    with pytest.raises(struct.error):
        decode("float32", b"\0")


def test_json_numbers_are_strict():
    assert json_number(math.nan) == "NaN"
    assert json_number(math.inf) == "Infinity"
    assert json_number(-math.inf) == "-Infinity"
    assert json_number(1.5) == 1.5
    assert json_number(complex(1, -2)) == "(1-2j)"

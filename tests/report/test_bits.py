from __future__ import annotations

import re
import struct

import pytest

from everybit.core.change import changes_between
from everybit.core.dtype import ITEMSIZE
from everybit.report.bits_html import bit_fields, draw_bits, raw_bits


@pytest.mark.parametrize("dtype", sorted(ITEMSIZE))
def test_the_parts_cover_every_bit_once(dtype):
    bits = [bit for _, low, count in bit_fields(dtype) for bit in range(low, low + count)]
    assert sorted(bits) == list(range(8 * ITEMSIZE[dtype]))
    assert bits[0] == bit_fields(dtype)[0][1]


@pytest.mark.parametrize("dtype", sorted(set(ITEMSIZE) - {"complex32", "complex64", "complex128"}))
def test_the_bits_drawn_are_the_bits_stored(dtype):
    size = ITEMSIZE[dtype]
    for bit in range(8 * size):
        before = bytes([0x35, 0x3E, 0x01, 0x40, 0x11, 0x27, 0xC3, 0x3F][8 - size :])
        after = (int.from_bytes(before, "little") ^ 1 << bit).to_bytes(size, "little")
        change = changes_between(dtype, before, after)[0].to_json()
        drawn = draw_bits(change, dtype)
        assert drawn is not None
        assert drawn.count('class="flipped"') == 1
        cells = re.findall(r'<b(?: class="(\w+)")?>(\d?)</b>', drawn)
        assert len(cells) == 8 * size
        assert cells[8 * size - 1 - bit][0] == "flipped"
        found = raw_bits(dtype, change["after"])
        if found is not None:
            assert found == int.from_bytes(after, "little")
            assert int("".join(digit for _, digit in cells), 2) == found


def test_every_finite_value_of_a_small_float_is_told():
    for code in range(0x7C00):
        value = struct.unpack("<e", struct.pack("<H", code))[0]
        assert raw_bits("float16", value) == code
        assert raw_bits("float16", -value) == code | 0x8000


@pytest.mark.parametrize(
    ("change", "dtype"),
    [
        ({"element": 1, "bits": []}, "float32"),
        ({"element": 1, "bits": [32]}, "float32"),
        ({"element": 1, "bits": [3]}, "float31"),
        ({"element": 1, "bits": [3]}, None),
        ({"element": 1, "bits": [3]}, ["float32"]),
        ({"element": 1, "bits": "3"}, "float32"),
    ],
)
def test_what_cannot_be_drawn_is_not_drawn(change, dtype):
    assert draw_bits(change, dtype) is None


def test_a_value_that_json_cannot_hold_is_told_by_the_other_one():
    # NaN has many bit patterns; the value before is exact.
    change = {"element": 0, "before": 1.9921875, "after": "NaN", "bits": [30]}
    assert '<b class="flipped">1</b>' in draw_bits(change, "float32")
    unknown = draw_bits({"element": 0, "before": "NaN", "after": "NaN", "bits": [3]}, "float32")
    assert '<b class="flipped"></b>' in unknown

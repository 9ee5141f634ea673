from __future__ import annotations

import random
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everybit.files import crc32


@given(st.binary(max_size=300), st.binary(max_size=300))
@settings(derandomize=True)
def test_join_is_the_crc_of_both(first, second):
    assert crc32.join(zlib.crc32(first), zlib.crc32(second), len(second)) == zlib.crc32(
        first + second
    )


@pytest.mark.parametrize("size", [1, 4, 65536, 300_000])
def test_every_single_flip_is_located(size):
    rng = random.Random(size)
    data = bytearray(rng.randbytes(size))
    right = zlib.crc32(data)
    for _ in range(40):
        place, bit = rng.randrange(size), rng.randrange(8)
        data[place] ^= 1 << bit
        assert crc32.flipped_bit(right ^ zlib.crc32(data), size) == (place, bit)
        data[place] ^= 1 << bit


def test_a_flip_in_a_member_of_hundreds_of_megabytes_is_located_without_reading_it():
    # The CRC of zeros with one bit set, by joining: no buffer of that size is needed.
    size, place = 400_000_000, 123_456_789
    behind = size - place - 1
    zeros = crc32.join(zlib.crc32(b"\0" * 0), _crc_of_zeros(size), size)
    flipped = crc32.join(
        crc32.join(_crc_of_zeros(place), zlib.crc32(b"\x10"), 1), _crc_of_zeros(behind), behind
    )
    assert crc32.flipped_bit(zeros ^ flipped, size) == (place, 4)


def _crc_of_zeros(count: int) -> int:
    crc, block, length = 0, zlib.crc32(b"\0"), 1
    while count:
        if count & 1:
            crc = crc32.join(crc, block, length)
        block, length = crc32.join(block, block, length), 2 * length
        count >>= 1
    return crc


def test_larger_damage_is_mostly_no_single_flip():
    rng = random.Random(1)
    data = rng.randbytes(4096)
    hits = 0
    for _ in range(200):
        damaged = bytearray(data)
        for place in rng.sample(range(4096), 3):
            damaged[place] ^= rng.randrange(1, 256)
        hits += crc32.flipped_bit(zlib.crc32(data) ^ zlib.crc32(damaged), 4096) is not None
    assert hits <= 1  # 8 * 4096 / 2^32 each


def test_no_difference_and_long_messages_have_no_flip():
    assert crc32.flipped_bit(0, 100) is None
    assert crc32.flipped_bit(1, 1 << 29) is None


@pytest.mark.parametrize(("step", "place"), [(4, 0), (4, 996), (1, 0), (1, 517), (1, 999)])
def test_bursts_hold_the_damage_of_a_word(step, place):
    data = bytearray(random.Random(2).randbytes(1003))
    right = zlib.crc32(data)
    mask = b"\x81\x00\xff\x01"
    for index, bits in enumerate(mask):
        data[place + index] ^= bits
    assert (place, int.from_bytes(mask, "little")) in set(
        crc32.bursts(right ^ zlib.crc32(data), len(data), step=step)
    )

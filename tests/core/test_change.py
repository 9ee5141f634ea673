"""Changed elements between two copies of the same bytes."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everybit.core.change import MAX_LISTED, as_ranges, changes_between, evidence_of
from everybit.core.dtype import ITEMSIZE

quick = settings(derandomize=True, deadline=None, max_examples=80)


@quick
@given(
    dtype=st.sampled_from(sorted(ITEMSIZE)),
    length=st.integers(1, 12),
    bits=st.sets(st.integers(0, 10**6), min_size=1, max_size=20),
)
def test_flipped_bits_are_named_by_element_and_bit(dtype, length, bits):
    size = ITEMSIZE[dtype]
    before = bytes(range(length * size))
    after = bytearray(before)
    bits = {bit % (8 * len(before)) for bit in bits}
    for bit in bits:
        after[bit // 8] ^= 1 << bit % 8
    changes = changes_between(dtype, before, bytes(after), 100)
    named = {(change.element - 100) * 8 * size + bit for change in changes for bit in change.bits}
    assert named == bits
    assert [change.element for change in changes] == sorted({100 + b // (8 * size) for b in bits})


def test_values_before_and_after():
    (change,) = changes_between("float32", struct.pack("<f", 1.0), struct.pack("<f", -1.0))
    assert (change.before, change.after, change.bits) == (1.0, -1.0, (31,))
    nan = struct.pack("<I", 0x7FC00001)
    assert changes_between("float32", nan, nan) == []
    (change,) = changes_between("float32", struct.pack("<I", 0x7FC00000), nan)
    assert change.to_json() == {"element": 0, "before": "NaN", "after": "NaN", "bits": [0]}


def test_runs_of_different_length_are_refused():
    with pytest.raises(ValueError, match="4 and 8 bytes"):
        changes_between("float32", bytes(4), bytes(8))


@quick
@given(st.lists(st.integers(0, 60)))
def test_ranges_hold_the_same_indices(elements):
    ranges = as_ranges(elements)
    assert sorted({i for start, end in ranges for i in range(start, end)}) == sorted(set(elements))
    assert all(a[1] < b[0] for a, b in pairwise(ranges))


def test_evidence_lists_the_first_and_counts_all():
    changes = changes_between("uint8", bytes(40), b"\x03" * 40)
    evidence = evidence_of(changes)
    assert evidence["num_elements"] == 40
    assert evidence["num_bits"] == 80
    assert len(evidence["changes"]) == MAX_LISTED

"""Both digests against a slow reference, golden vectors, and the damage they are for."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core import slow_reference

from everybit.core.digest import Algorithm, Digest, tensor_header
from everybit.core.dtype import ITEMSIZE
from everybit.core.grid import BLOCK_BYTES, ROW_BYTES, ROW_WORDS, GridSums, grid_digest, mix
from everybit.core.tree import LEAF_BYTES, TreeHasher, fold_leaves, tree_digest

quick = settings(derandomize=True, deadline=None, max_examples=60)


def _bytes(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


# Lengths around every edge of the definitions, in bytes.
EDGES = [
    0, 1, 7, 8, 9, ROW_BYTES - 1, ROW_BYTES, ROW_BYTES + 1, LEAF_BYTES - 1, LEAF_BYTES,
    LEAF_BYTES + 1, BLOCK_BYTES - 8, BLOCK_BYTES, BLOCK_BYTES + 4, BLOCK_BYTES + ROW_BYTES + 5,
]  # fmt: skip


@pytest.mark.parametrize("size", EDGES)
def test_edges_agree_with_the_reference(size):
    data = _bytes(size, size)
    assert grid_digest("uint8", (size,), data).hex == slow_reference.grid("uint8", (size,), data)
    assert tree_digest("uint8", (size,), data).hex == slow_reference.tree("uint8", (size,), data)


@st.composite
def tensors(draw):
    dtype = draw(st.sampled_from(sorted(ITEMSIZE)))
    shape = tuple(draw(st.lists(st.integers(0, 9), max_size=4)))
    size = ITEMSIZE[dtype] * int(np.prod(shape, dtype=np.int64))
    return dtype, shape, _bytes(size, draw(st.integers(0, 2**32)))


@quick
@given(tensors())
def test_every_dtype_and_shape_agrees_with_the_reference(tensor):
    assert grid_digest(*tensor).hex == slow_reference.grid(*tensor)
    assert tree_digest(*tensor).hex == slow_reference.tree(*tensor)


GOLDEN = [
    ("float32", (), b"\0\0\x80\x3f", "0041a111efae9c1a", "9534c3148916185fa28021fa3dfbc34c"),
    ("float32", (0, 3), b"", "36a5549469e060b1", "8538f6a28d2f4ebc63af3eaa1a2c3646"),
    ("bfloat16", (2, 3), bytes(range(12)), "b9560dbd83ef5e49", "41ebf114873178407f5d32ff6371e4ce"),
    (
        "int64",
        (300, 256),
        bytes(i * i % 251 for i in range(8 * 300 * 256)),
        "735e9b82811d3fa8",
        "039db0bbadc4fbfc57987e0987653f47",
    ),
    (
        "bytes",
        (70000,),
        bytes(i % 249 for i in range(70000)),
        "ab6fb7122b3289dd",
        "29118df2a78197b92137dd536dd096ae",
    ),
]


@pytest.mark.parametrize(("dtype", "shape", "data", "grid", "tree"), GOLDEN)
def test_golden_vectors(dtype, shape, data, grid, tree):
    # Recorded digests must stay readable for ever: these never change within version 1.
    assert grid_digest(dtype, shape, data).hex == grid
    assert tree_digest(dtype, shape, data).hex == tree


def test_splitmix_golden_vector():
    # The first outputs of SplitMix64 from state 0, as published with the algorithm.
    states = np.array([0, 0x9E3779B97F4A7C15], np.uint64)
    assert [int(word) for word in mix(states)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]


@pytest.mark.parametrize("digest", [grid_digest, tree_digest])
def test_dtype_and_shape_count(digest):
    data = _bytes(24)
    seen = {
        str(digest(dtype, shape, data))
        for dtype, shape in [
            ("float32", (6,)), ("int32", (6,)), ("float32", (2, 3)), ("float32", (3, 2)),
            ("float32", (6, 1)), ("bfloat16", (12,)),
        ]
    }  # fmt: skip
    assert len(seen) == 6


@pytest.mark.parametrize("digest", [grid_digest, tree_digest])
def test_trailing_zeros_and_empty_tensors_are_told_apart(digest):
    assert digest("uint8", (8,), bytes(8)) != digest("uint8", (9,), bytes(9))
    assert digest("uint8", (0,), b"") != digest("uint8", (0, 2), b"")


@pytest.mark.parametrize("digest", [grid_digest, tree_digest])
def test_every_single_bit_counts(digest):
    data = bytearray(_bytes(ROW_BYTES + 40))
    right = digest("uint8", (len(data),), data)
    for bit in range(8 * len(data)):
        data[bit // 8] ^= 1 << bit % 8
        assert digest("uint8", (len(data),), data) != right, bit
        data[bit // 8] ^= 1 << bit % 8
    assert digest("uint8", (len(data),), data) == right


def _swapped(data: bytes, size: int, first: int, second: int) -> bytes:
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    pieces[first], pieces[second] = pieces[second], pieces[first]
    return b"".join(pieces)


@pytest.mark.parametrize("digest", [grid_digest, tree_digest])
@pytest.mark.parametrize(
    ("size", "first", "second"),
    [
        (8, 0, 1),  # words of one row
        (8, 3, ROW_WORDS + 3),  # words of one column
        (8, 3, ROW_WORDS + 9),
        (ROW_BYTES, 0, 1),
        (ROW_BYTES, 1, 130),  # rows of two blocks
        (BLOCK_BYTES, 0, 1),
        (4, 0, 1),  # halves of a word: two float32 elements
        (2, 10, 11),
        (1, 6, 7),
    ],
)
def test_order_counts(digest, size, first, second):
    data = _bytes(2 * BLOCK_BYTES + 3 * ROW_BYTES, 5)
    shape = (len(data),)
    assert digest("uint8", shape, _swapped(data, size, first, second)) != digest(
        "uint8", shape, data
    )


@pytest.mark.parametrize("digest", [grid_digest, tree_digest])
def test_the_same_change_on_many_words_does_not_cancel(digest):
    # A XOR reduction gives the same value for all of these.
    data = np.frombuffer(_bytes(4 * ROW_BYTES), "<u8")
    shape = (len(data),)
    right = digest("uint64", shape, data.tobytes())
    for mask in (1, 1 << 31, 1 << 51, 1 << 62 | 1 << 31):
        for count in (2, 4, ROW_WORDS, 4 * ROW_WORDS):
            damaged = data.copy()
            damaged[:count] ^= np.uint64(mask)
            assert digest("uint64", shape, damaged.tobytes()) != right, (mask, count)


def test_what_grid_cannot_see_tree_sees():
    """The stated limit: differences that cancel in every row and every column."""
    data = np.frombuffer(_bytes(4 * ROW_BYTES), "<u8").copy()
    shape = (len(data),)
    damaged = data.copy()
    damaged[[5, 9, ROW_WORDS + 5, ROW_WORDS + 9]] ^= np.uint64(1 << 63)
    assert grid_digest("uint64", shape, damaged) == grid_digest("uint64", shape, data)
    assert tree_digest("uint64", shape, damaged) != tree_digest("uint64", shape, data)
    damaged[5] ^= np.uint64(1)
    assert grid_digest("uint64", shape, damaged) != grid_digest("uint64", shape, data)


@pytest.mark.parametrize("num_words", [1, 10, 512, 4096, 100_000])
@pytest.mark.parametrize("pitch", [1, 2, 4, 16, 32, 64, 256, 512])
def test_top_bits_flipped_at_a_regular_pitch_are_seen(num_words, pitch):
    # The sign of every n-th float64: negation, a faulty lane, a warp's stride.
    data = np.frombuffer(_bytes(8 * num_words), "<u8")
    damaged = data.copy()
    damaged[::pitch] ^= np.uint64(1 << 63)
    shape = (num_words,)
    assert grid_digest("float64", shape, damaged) != grid_digest("float64", shape, data)
    before, after = GridSums.of(data), GridSums.of(damaged)
    if num_words > 4 * pitch * ROW_WORDS:
        assert (before.rows != after.rows).any()


@quick
@given(
    size=st.integers(0, 3 * ROW_BYTES),
    cuts=st.lists(st.integers(0, 3 * ROW_BYTES), max_size=4),
    base=st.sampled_from([0, BLOCK_BYTES - ROW_BYTES]),
    seed=st.integers(0, 99),
)
def test_shards_add_up_at_any_byte(size, cuts, base, seed):
    data = bytes(base) + _bytes(size, seed)
    edges = sorted({0, len(data), *(min(base + cut, len(data)) for cut in cuts)})
    total = GridSums.empty(len(data))
    for start, end in pairwise(edges):
        total = total + GridSums.of(data[start:end], offset=start, num_bytes=len(data))
    assert total.equals(GridSums.of(data))


def test_a_shard_past_the_end_is_refused():
    with pytest.raises(ValueError, match="ends at byte 11 of 10"):
        GridSums.of(bytes(8), offset=3, num_bytes=10)
    with pytest.raises(ValueError, match="do not add up"):
        GridSums.empty(8) + GridSums.empty(9)


@quick
@given(
    size=st.integers(0, 2 * LEAF_BYTES + 10),
    pieces=st.lists(st.integers(0, LEAF_BYTES + 3), max_size=5),
)
def test_pieces_of_any_length_give_the_same_tree(size, pieces):
    data = _bytes(size, size)
    hasher = TreeHasher()
    start = 0
    for length in [*pieces, size]:
        hasher.update(data[start : start + length])
        hasher.leaves()  # reading does not disturb
        start += length
    assert hasher.digest("bytes", (size,)) == tree_digest("bytes", (size,), data)
    assert hasher.num_bytes == size


def test_a_changed_leaf_is_named_by_its_leaf_digest():
    data = bytearray(_bytes(3 * LEAF_BYTES + 5))
    before, after = TreeHasher(), TreeHasher()
    before.update(data)
    data[LEAF_BYTES + 7] ^= 4
    after.update(data)
    changed = [
        leaf
        for leaf in range(4)
        if before.leaves()[16 * leaf : 16 * leaf + 16] != after.leaves()[16 * leaf : 16 * leaf + 16]
    ]
    assert changed == [1]


def test_leaves_of_the_wrong_number_are_refused():
    with pytest.raises(ValueError, match="16 bytes of leaves, not 0"):
        fold_leaves("bytes", (1,), 1, b"")


def test_a_digest_reads_back_and_nonsense_does_not():
    digest = grid_digest("uint8", (3,), b"abc")
    assert Digest.parse(str(digest)) == digest
    assert digest.algorithm is Algorithm.GRID
    assert 0 <= digest.word < 2**64
    for text in ("", "grid", "grid:", "grid:XYZ", "grid:ABC", "md5:00", ":00"):
        with pytest.raises(ValueError):  # noqa: PT011
            Digest.parse(text)


def test_the_header_of_a_scalar_is_not_that_of_an_empty_shape_name():
    assert tensor_header("float32", ()) == b"float32[]"
    assert tensor_header("float32", (0,)) == b"float32[0]"

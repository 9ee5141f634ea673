"""Locating damaged words: exact where the sums determine them, a refutable hypothesis elsewhere."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everybit.core.grid import BLOCK_ROWS, BLOCK_WORDS, ROW_WORDS, GridSums
from everybit.core.grid_locate import locate
from everybit.core.tree import tree_digest

quick = settings(derandomize=True, deadline=None, max_examples=80)
WORDS = 2 * BLOCK_WORDS + 5 * ROW_WORDS + 17
RIGHT = np.frombuffer(random.Random(7).randbytes(8 * WORDS), "<u8")
BEFORE = GridSums.of(RIGHT)


def _damaged(deltas: dict[int, int]) -> np.ndarray:
    found = RIGHT.copy()
    for word, delta in deltas.items():
        found[word] = (int(found[word]) + delta) % 2**64
    return found


def _located(deltas: dict[int, int]) -> dict[int, int] | None:
    """Return what `locate` says was damaged, None where a block was left unsolved."""
    blocks = locate(BEFORE, GridSums.of(_damaged(deltas)))
    if any(block.words is None for block in blocks):
        return None
    return {word.word: word.delta for block in blocks for word in block.words or ()}


def _healed(found: np.ndarray, words: dict[int, int]) -> np.ndarray:
    healed = found.copy()
    for word, delta in words.items():
        healed[word] = (int(healed[word]) - delta) % 2**64
    return healed


def _same_bytes(words: np.ndarray) -> bool:
    shape = (WORDS,)
    return tree_digest("uint64", shape, words) == tree_digest("uint64", shape, RIGHT)


delta = st.integers(1, 2**64 - 1)


@quick
@given(word=st.integers(0, WORDS - 1), bit=st.integers(0, 63))
def test_a_flipped_bit_is_located_and_healed(word, bit):
    found = RIGHT.copy()
    found[word] ^= np.uint64(1 << bit)
    (block,) = locate(BEFORE, GridSums.of(found))
    (damage,) = block.words
    assert damage.word == word
    assert block.rows == (word // ROW_WORDS,)
    assert _same_bytes(_healed(found, {damage.word: damage.delta}))


@quick
@given(
    row=st.integers(0, WORDS // ROW_WORDS - 1),
    start=st.integers(0, ROW_WORDS - 1),
    deltas=st.lists(delta, min_size=1, max_size=ROW_WORDS),
)
def test_an_overwrite_within_one_row_is_located(row, start, deltas):
    first = row * ROW_WORDS + start
    deltas = deltas[: ROW_WORDS - start]
    damage = dict(zip(range(first, first + len(deltas)), deltas, strict=True))
    if sum(deltas) % 2**64:  # else the row's sum stays, and nothing is known of the row
        assert _located(damage) == damage


@quick
@given(
    col=st.integers(0, ROW_WORDS - 1),
    rows=st.sets(st.integers(0, BLOCK_ROWS - 1), min_size=1, max_size=BLOCK_ROWS),
    seed=st.integers(0, 999),
)
def test_a_strided_write_down_one_column_is_located(col, rows, seed):
    draw = random.Random(seed)
    damage = {BLOCK_WORDS + row * ROW_WORDS + col: draw.randrange(1, 2**64) for row in rows}
    if sum(damage.values()) % 2**64:
        assert _located(damage) == damage


@quick
@given(
    cells=st.lists(
        st.tuples(st.integers(0, BLOCK_ROWS - 1), st.integers(0, ROW_WORDS - 1), delta),
        min_size=2, max_size=12,
        unique_by=(lambda c: c[0], lambda c: c[1], lambda c: c[2]),
    )
)  # fmt: skip
def test_scattered_words_with_their_own_rows_columns_and_deltas_are_located(cells):
    damage = {row * ROW_WORDS + col: value for row, col, value in cells}
    assert _located(damage) == damage


def test_each_block_is_solved_on_its_own():
    damage = {3: 5, BLOCK_WORDS + 3: 5, 2 * BLOCK_WORDS + 700: 2**63}
    assert _located(damage) == damage
    assert locate(BEFORE, BEFORE) == []


@pytest.mark.parametrize("bit", [0, 31, 63])
def test_the_same_change_in_two_rows_and_columns_stays_unsolved(bit):
    # Either diagonal of the rectangle has these sums: the rows are named, the words are not.
    damage = {5 * ROW_WORDS + 8: 1 << bit, 9 * ROW_WORDS + 20: 1 << bit}
    (block,) = locate(BEFORE, GridSums.of(_damaged(damage)))
    assert block.words is None
    assert block.rows == (5, 9)


def test_a_wide_overwrite_stays_unsolved():
    damage = {word: 1000 + word for word in range(100, 900)}
    (block,) = locate(BEFORE, GridSums.of(_damaged(damage)))
    assert block.words is None
    assert block.rows == (0, 1, 2, 3)


# Damage that has exactly the sums of a simpler pattern: here `locate` answers, and answers wrong.
MIMICS = [
    {ROW_WORDS: 5, 2 * ROW_WORDS + 1: 7, 2 * ROW_WORDS + 2: -7},  # a row whose sum did not change
    {1: 3, 2: 4, ROW_WORDS + 2: 3},  # row sums {7, 3}, column sums {3, 7}
]


@pytest.mark.parametrize("damage", MIMICS)
def test_a_wrong_hypothesis_is_refuted_by_an_independent_fingerprint(damage):
    found = _damaged(damage)
    words = _located(damage)
    assert words is not None
    assert words != damage
    assert not _same_bytes(_healed(found, words))


@quick
@given(
    st.dictionaries(
        st.tuples(st.integers(0, 3), st.integers(0, 3)), st.integers(1, 6), min_size=1, max_size=6
    )
)
def test_every_answer_explains_the_sums_it_was_given(cells):
    # Few rows, columns and small deltas: collisions on purpose.
    damage = {row * ROW_WORDS + col: value for (row, col), value in cells.items()}
    words = _located(damage)
    if words is not None:
        assert GridSums.of(_healed(_damaged(damage), words)).equals(BEFORE)


def test_sums_of_other_tensors_are_refused():
    with pytest.raises(ValueError, match="different size"):
        locate(GridSums.empty(8), GridSums.empty(16))

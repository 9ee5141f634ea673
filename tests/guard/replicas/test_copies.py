"""Which copies parted, whose, and which are none: decided from layouts and digests alone."""

from __future__ import annotations

import numpy as np
import pytest

from everybit.core.damage import Role
from everybit.guard.replicas.copies import OWN_BUFFER, OWN_WEIGHTS, Copies, owner_of
from everybit.guard.replicas.layout import Column, Layout, gradient_name

NONE: dict[int, frozenset[str]] = {rank: frozenset() for rank in range(4)}


def column(name: str, role: Role = Role.PARAMETER, *, declared: bool = True) -> Column:
    return Column(name, role, "float32 (3,)", declared)


def copies(*columns: Column, ranks: int = 3) -> Copies:
    return Copies([Layout(columns)] * ranks, rank=0)


def words(*rows: list[int]) -> dict[int, np.ndarray]:
    return {rank: np.array(row, np.uint64) for rank, row in enumerate(rows)}


def test_the_majority_is_right() -> None:
    found = copies(column("a"), column("b"))
    (parted,) = found.compare(words([1, 2], [1, 3], [1, 2]), NONE, heals=False)
    assert (parted.column.name, parted.culprits, parted.named_by) == ("b", (1,), "majority")
    assert (parted.tellers, parted.source) == ((1,), 0)
    # Told once, and no class holds it any more.
    assert found.compare(words([1, 2], [1, 3], [1, 2]), NONE, heals=False) == []
    assert found.num_compared == 1


def test_two_ranks_name_nobody_but_by_an_own_finding() -> None:
    (parted,) = copies(column("a"), ranks=2).compare(words([1], [2]), NONE, heals=False)
    assert (parted.culprits, parted.named_by, parted.tellers) == ((0, 1), "", (0,))
    assert parted.source == 1
    erred = {0: frozenset[str](), 1: frozenset({""})}  # Replay has found that rank 1 erred.
    (parted,) = copies(column("a"), ranks=2).compare(words([1], [2]), erred, heals=False)
    assert (parted.culprits, parted.named_by) == ((1,), "own finding")


def test_what_another_check_has_told_is_not_told_again() -> None:
    known = {**NONE, 1: frozenset({"a"})}
    found = copies(column("a"), column("Adam::exp_avg::a", Role.STATE))
    assert found.compare(words([1, 5], [2, 6], [1, 5]), known, heals=False) == []
    found = copies(column("a"))
    assert len(found.compare(words([1], [2], [1]), known, heals=True)) == 1  # It may be healed.


def test_what_follows_from_a_told_difference_is_not_told() -> None:
    found = copies(column("a"), column("Adam::exp_avg::a", Role.STATE))
    assert len(found.compare(words([1, 5], [2, 5], [1, 5]), NONE, heals=False)) == 1
    assert found.compare(words([1, 5], [2, 6], [1, 5]), NONE, heals=False) == []


def test_what_could_not_be_healed_is_told_once() -> None:
    found = copies(column("a"))
    rows = words([1], [2], [1])
    assert len(found.compare(rows, NONE, heals=True)) == 1
    assert found.compare(rows, NONE, heals=True) == []
    assert "a" in found.off
    again = copies(column("a"))
    assert len(again.compare(rows, NONE, heals=True)) == 1
    again.note_equal(rows[0])
    assert len(again.compare(rows, NONE, heals=True)) == 1  # Healed since: another damage.


def test_weights_that_nothing_keeps_equal() -> None:
    loose = [column(name, declared=False) for name in "abcd"]
    own = copies(*loose)
    assert own.compare(words([1, 2, 3, 4], [1, 9, 9, 9], [1, 8, 8, 8]), NONE, heals=False) == []
    assert own.off == dict.fromkeys("abcd", OWN_WEIGHTS)

    reduced_by_hand = copies(*loose)
    same = [1, 2, 3, 4]
    assert reduced_by_hand.compare(words(same, same, same), NONE, heals=False) == []
    (parted,) = reduced_by_hand.compare(words(same, [1, 2, 9, 4], same), NONE, heals=False)
    assert (parted.column.name, parted.culprits) == ("c", (1,))

    averaged_now_and_then = copies(*loose)
    averaged_now_and_then.compare(words(same, same, same), NONE, heals=False)
    rows = words([1, 2, 5, 6], [1, 2, 7, 8], [1, 2, 9, 9])
    assert averaged_now_and_then.compare(rows, NONE, heals=False) == []
    assert set(averaged_now_and_then.off.values()) == {OWN_WEIGHTS}


def test_buffers() -> None:
    mean = column("mean", Role.BUFFER, declared=False)
    statistics = copies(mean)
    assert statistics.compare(words([1], [2], [3]), NONE, heals=False) == []
    assert statistics.off == {"mean": OWN_BUFFER}

    constant = copies(mean)
    constant.compare(words([1], [1], [1]), NONE, heals=False)
    (parted,) = constant.compare(words([1], [2], [1]), NONE, heals=False)
    assert parted.culprits == (1,)

    begun_late = copies(mean)  # All ranks write it now: statistics again.
    begun_late.compare(words([1], [1], [1]), NONE, heals=False)
    assert begun_late.compare(words([5], [6], [5]), NONE, heals=False) == []


def test_shards_have_copies_on_their_own_ranks_only() -> None:
    def shard(offset: int) -> Layout:
        return Layout((Column("a", Role.PARAMETER, f"float32 (3,) at {offset}", True),))

    layouts = [shard(0), shard(3), shard(0), shard(3)]
    found = Copies(layouts, rank=1)
    assert found.ranks == [1, 3]
    assert [each.ranks for each in found.classes] == [(1, 3)]
    (parted,) = found.compare(words([1], [2], [1], [4]), NONE, heals=False)
    assert parted.culprits == (1, 3)
    assert Copies([shard(0), shard(3)], rank=0).classes == []


def test_classes_are_the_same_words_on_all_ranks() -> None:
    first = Layout((column("a"), column("b")))
    second = Layout((column("b"), column("a")))  # In another order.
    rows = [np.array([1, 2], np.uint64), np.array([2, 1], np.uint64)]
    one, other = (Copies([first, second], rank=rank).classes[0] for rank in range(2))
    assert one.key == other.key
    assert one.digest(rows[0]) == other.digest(rows[1])
    assert one.digest(rows[0]) != other.digest(rows[0])


@pytest.mark.parametrize("name", ["w", "AdamW::exp_avg::w", gradient_name("w")])
def test_who_owns_a_column(name: str) -> None:
    assert owner_of(name) == "w"


def test_how_many_parted() -> None:
    found = copies(*(column(name) for name in "abcd"))
    parted = found.compare(words([1, 2, 3, 4], [9, 9, 9, 4], [1, 2, 3, 4]), NONE, heals=True)
    assert found.shares(parted) == {(1,): 0.75}

"""A run in shards against copies, or other shards: digests of whole tensors take their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.diff.test_runs import rank_side, record, run

from everybit.core.link import Link
from everybit.core.observation import TensorTable
from everybit.diff.runs import diff_runs
from everybit.diff.side import WholeWords

if TYPE_CHECKING:
    from everybit.diff.outcome import Outcome
    from everybit.diff.side import RunSide

STEPS = range(4)
BEGINNING = {"w": 1, "b": 2}


def after(step: int, changes: dict[tuple[int, str], int] | None = None) -> dict[str, int]:
    """Digests of the whole tensors that a step has left."""
    words = {"w": 10 + step, "b": 20 + step, "AdamW::exp_avg::w": 30 + step}
    for (at, name), word in (changes or {}).items():
        if at == step:
            words[name] = word
    return words


def world(
    name: str, size: int, *, shards: bool = False, at=STEPS, changes=None, begins=None, partial=()
) -> RunSide:
    """A run on `size` ranks, in copies or in shards of `w`; `b` is whole on all ranks."""
    sides = []
    for rank in range(size):
        records = []
        for step in STEPS:
            words = after(step, changes)
            if shards:
                words |= {n: hash((n, step, rank, size)) >> 1 for n in words if n != "b"}
            inputs = {Link.BATCH: {"0": 7 * step + rank}, Link.GRAD: {"w": 100 * rank + step}}
            records.append(record(step, {**inputs, Link.UPDATE: words}))
        init = {**BEGINNING, **(begins or {})}
        own = {**init, "w": 900 + rank} if shards else init
        table = TensorTable(link=Link.INIT, names=tuple(own), digests=tuple(own.values()))

        def wholes(init=init):
            yield WholeWords(0, Link.INIT, {"w": init["w"]})
            for step in at:
                found = {n: w for n, w in after(step, changes).items() if n != "b"}
                found = {n: w for n, w in found.items() if (step, n) not in partial}
                yield WholeWords(step, Link.UPDATE, found)

        more = {}
        if shards:
            place = ((size * 4,), (4 * rank,), (4,))
            more = {"shards": {"w": place}, "wholes": wholes}
        sides.append(rank_side(records, rank=rank, starts=((0, (table,)),), **more))
    return run(*sides, name=name, world_size=size)


def why(found: Outcome) -> str:
    return next(s.why for s in found.coverage.skipped if s.what.startswith("tensors in shards"))


def test_shards_and_copies_of_one_model_are_no_difference() -> None:
    for one, other in (
        (world("A", 2), world("B", 2, shards=True)),
        (world("A", 2, shards=True), world("B", 2)),
        (world("A", 1), world("B", 2, shards=True)),
        (world("A", 4, shards=True), world("B", 2, shards=True)),
    ):
        found = diff_runs(one, other)
        assert found.first is None
        assert f"on record at {len(STEPS)} of the steps" in why(found)


def test_the_same_shards_are_compared_as_they_are() -> None:
    found = diff_runs(world("A", 2, shards=True, at=()), world("B", 2, shards=True, at=()))
    assert found.first is None
    assert not any(s.what.startswith("tensors in shards") for s in found.coverage.skipped)
    changed = {(2, "b"): 5}
    found = diff_runs(world("A", 2, shards=True), world("B", 2, shards=True, changes=changed))
    assert (found.first.where.step, found.first.where.parameter) == (2, "b")


def test_the_first_tensor_that_parts_is_named() -> None:
    changes = {(2, "AdamW::exp_avg::w"): 5, (3, "w"): 6}
    for one in (world("A", 2), world("A", 1), world("A", 4, shards=True)):
        found = diff_runs(one, world("B", 2, shards=True, changes=changes))
        where = found.first.where
        assert (where.step, where.parameter, where.tensor) == (2, "w", "exp_avg")
        assert "ranks.shards" in {each["entry"] for each in found.explained_by}


def test_another_beginning_is_told_as_such() -> None:
    found = diff_runs(world("A", 2), world("B", 2, shards=True, begins={"w": 3}))
    assert (found.first.kind, found.first.where.parameter) == ("init", "w")


def test_at_steps_without_digests_what_is_in_shards_is_left_out() -> None:
    shards = world("B", 2, shards=True, at=(0, 3), changes={(2, "w"): 5})
    found = diff_runs(world("A", 2), shards)
    assert found.first is None
    assert "on record at 2 of the steps" in why(found)
    # What is whole is compared all the same.
    found = diff_runs(world("A", 2), world("B", 2, shards=True, at=(0, 3), changes={(2, "b"): 5}))
    assert (found.first.where.step, found.first.where.parameter) == (2, "b")
    # And so is what came out of an addition of some of the tensors.
    shards = world("B", 2, shards=True, partial={(1, "w")}, changes={(1, "AdamW::exp_avg::w"): 5})
    found = diff_runs(world("A", 2), shards)
    assert (found.first.where.step, found.first.where.tensor) == (1, "exp_avg")
    found = diff_runs(world("A", 2), world("B", 2, shards=True, at=(), begins={"b": 2}))
    assert found.first is None
    assert "no digests of whole tensors" in why(found)

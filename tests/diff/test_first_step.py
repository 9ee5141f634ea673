"""The first step of a resumed run beside the same step of a run that went through."""

from __future__ import annotations

from dataclasses import replace

from tests.diff.test_runs import plain, rank_side, record, run, table

from everybit.core.link import Link
from everybit.core.observation import TensorTable
from everybit.diff.runs import diff_runs


def resumed(first):
    """Go on from what step 2 of `plain` left, with another first step than its step 3."""
    start = table(Link.UPDATE, ("w", "b", "AdamW::exp_avg::w"), 2)
    init = replace(start, link=Link.INIT)
    return rank_side([first, record(4)], attempt=1, starts=[(3, (init,))])


def with_calls(step: int, extra: int, streams=None):
    """A step that holds the inputs of a call more, before the others."""
    found = record(step, {Link.RNG: streams} if streams else None)
    batch = found.tables[0]
    more = TensorTable(
        link=Link.BATCH, names=("0", "#1.0", "#1.labels"), digests=(extra, *batch.words())
    )
    return replace(found, tables=(more, *found.tables[1:]))


def whole(**fields):
    side = plain()
    steps = list(side.steps)
    return replace(side, steps=iter(steps), reread=lambda: iter(steps), **fields)


def kind(first):
    found = diff_runs(run(whole()), run(resumed(first), name="B"))
    return None if found.first is None else str(found.first.kind)


def test_a_call_before_the_first_update_is_no_difference() -> None:
    assert kind(record(3)) is None
    assert kind(with_calls(3, 9, {"torch": 77})) is None
    # Nor is one that was made before the checkpoint, behind the update: it is not made again.
    steps = [with_calls(k, 9, {"torch": 77}) if k == 3 else record(k) for k in range(6)]
    before = replace(rank_side(steps), reread=lambda: iter(steps))
    assert diff_runs(run(before), run(resumed(record(3)), name="B")).first is None
    # Nor is a loss that the Guard did not expect before the first update.
    bare = record(3, losses=())
    silent = replace(bare, tables=tuple(t for t in bare.tables if t.link is not Link.LOSS))
    assert kind(silent) is None
    # The calls that both hold differ: the batch does, or the streams that made it.
    other = record(3, {Link.BATCH: {"0": 5}})
    assert kind(other) == "data"
    assert kind(replace(with_calls(3, 9), losses=(1.5,))) == "unknown"
    parted = diff_runs(
        run(whole()), run(resumed(replace(with_calls(3, 9), losses=(1.5,))), name="B")
    )
    assert "1.97 in A, 1.5 in B" in parted.findings[0].message
    assert kind(record(3, {Link.RNG: {"torch": 77}, Link.LOSS: {"0": 4}})) == "rng"


def test_gradients_of_the_step_before_are_no_difference() -> None:
    bare = record(3)
    lacking = replace(bare, tables=tuple(t for t in bare.tables if t.link is not Link.GRAD))
    assert kind(lacking) is None
    assert kind(record(3, {Link.GRAD: {"w": 5}})) == "unknown"
    # In its middle a run that lacks them is another one.
    found = diff_runs(
        run(whole()), run(rank_side([record(k) if k != 3 else lacking for k in range(6)]), name="B")
    )
    assert str(found.first.kind) == "missing"


def averaged(step: int, before: int, changes=None):
    """A step that leaves `ema.w` as it was before: the program averages behind the update."""
    found = record(step, changes)
    update = found.tables[-1]
    names = (*update.names, "ema.w")
    digests = (*update.words(), 5000 + before)
    return replace(
        found, tables=(*found.tables[:-1], replace(update, names=names, digests=digests))
    )


def test_an_average_that_is_written_behind_the_update() -> None:
    def straight():
        side = rank_side([averaged(k, k) for k in range(6)])
        steps = list(side.steps)
        return replace(side, steps=iter(steps), reread=lambda: iter(steps))

    def going_on(average: int):
        update = table(Link.UPDATE, ("w", "b", "AdamW::exp_avg::w"), 2)
        names, words = (*update.names, "ema.w"), (*update.words(), average)
        init = TensorTable(link=Link.INIT, names=names, digests=words)
        own = [replace(averaged(k, k), step=k - 3) for k in (3, 4)]
        return rank_side(own, attempt=1, starts=[(0, (init,))])

    # After step 2 the average is what step 3 found there.
    found = diff_runs(run(straight()), run(going_on(5003), name="B"))
    assert found.first is None
    assert found.stats["last_agreed_step"] == 4
    # One that was left out of the checkpoint is told.
    found = diff_runs(run(straight()), run(going_on(77), name="B"))
    assert found.first is not None
    assert found.first.where.link == "init"


def test_of_two_optimizers_the_one_that_was_last_decides() -> None:
    """The first one's state is not touched by the second one's update, which a buffer is."""

    def of(step: int, buffer: int, name: str):
        words = {"w": 1, "G::exp_avg::w": 2} if name == "G" else {"v": step, "D::exp_avg::v": step}
        words |= {"running": buffer}
        update = TensorTable(link=Link.UPDATE, names=tuple(words), digests=tuple(words.values()))
        found = record(step)
        return replace(found, tables=(*found.tables[:-1], update))

    steps = [of(0, 5, "D"), of(1, 6, "G"), of(2, 7, "D"), of(3, 8, "G")]
    whole = replace(rank_side(steps), reread=lambda: iter(steps))
    state = {"w": 1, "G::exp_avg::w": 2, "v": 0, "D::exp_avg::v": 0, "running": 6}
    init = TensorTable(link=Link.INIT, names=tuple(state), digests=tuple(state.values()))
    own = [replace(each, step=each.step - 2) for each in steps[2:]]
    going_on = rank_side(own, attempt=1, starts=[(0, (init,))])
    found = diff_runs(run(whole), run(going_on, name="B"))
    assert found.first is None
    assert found.stats["steps"] == 2

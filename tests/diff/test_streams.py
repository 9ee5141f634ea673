"""Random streams that nobody seeded: no difference until something is drawn from them."""

from __future__ import annotations

from tests.diff.test_runs import plain, record, run

from everybit.core.link import Link
from everybit.diff.runs import diff_runs


def _stream(words: dict[int, int], name: str = "python", **others: dict[int, dict]) -> dict:
    """Changes that give `name` these words by step, and other links theirs."""
    steps = {step: {Link.RNG: {name: word}} for step, word in words.items()}
    for link, by_step in others.items():
        for step, values in by_step.items():
            steps[step][Link(link)] = values
    return steps


def _side(changes: dict[int, dict], num_steps: int = 5):
    from tests.diff.test_runs import rank_side

    return rank_side([record(step, changes.get(step)) for step in range(num_steps)])


def _compare(a: dict[int, dict], b: dict[int, dict]):
    return diff_runs(run(_side(a)), run(_side(b), name="B"))


STILL_A = dict.fromkeys(range(5), 11)
STILL_B = dict.fromkeys(range(5), 22)
DRAWN_A = {step: 100 + step for step in range(5)}
DRAWN_B = {step: 200 + step for step in range(5)}


def test_unseeded_streams_that_nobody_draws_from_are_no_difference() -> None:
    found = _compare(_stream(STILL_A), _stream(STILL_B))
    assert found.first is None
    (told,) = [item for item in found.coverage.skipped if item.what == "random streams"]
    assert "python" in told.why
    assert not told.promised


def test_streams_drawn_from_without_effect_are_no_difference() -> None:
    assert _compare(_stream(DRAWN_A), _stream(DRAWN_B)).first is None


def test_an_unused_stream_is_not_blamed_for_a_batch_that_differs() -> None:
    found = _compare(_stream(STILL_A), _stream(STILL_B, batch={3: {"0": 5}}))
    assert found.first is not None
    assert (found.first.kind, found.first.where.step) == ("data", 3)


def test_a_stream_drawn_from_while_the_batch_was_made_is_blamed() -> None:
    a = {**STILL_A, 3: 12, 4: 12}
    b = {**STILL_B, 3: 23, 4: 23}
    found = _compare(_stream(a), _stream(b, batch={3: {"0": 5}}))
    assert found.first is not None
    assert (found.first.kind, found.first.where.step) == ("rng", 3)


def test_a_stream_drawn_from_within_the_step_is_blamed() -> None:
    a = {**STILL_A, 4: 12}
    b = {**STILL_B, 4: 23}
    found = _compare(_stream(a), _stream(b, loss={3: {"0": 5}}))
    assert found.first is not None
    assert (found.first.kind, found.first.where.step) == ("rng", 3)


def test_a_stream_that_was_equal_parts_the_runs_when_one_of_them_draws() -> None:
    found = diff_runs(run(plain()), run(plain(changes={2: {Link.RNG: {"torch": 9}}}), name="B"))
    assert found.first is not None
    assert (found.first.kind, found.first.where.step) == ("rng", 2)

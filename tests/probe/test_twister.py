"""States of twisters as they lie in memory are those that their owners tell."""

from __future__ import annotations

import random

import numpy as np
import pytest

from everybit.probe import twister
from everybit.probe.twister import Followed, of_legacy, of_numpy, of_python

COUNTS = [0, 1, 3, 623, 700]


def test_they_lie_as_known_here() -> None:
    """On this NumPy and this Python the quick way is taken."""
    assert twister._numpy_lies_as_known()
    assert twister._python_lies_as_known()
    assert twister._half_offset() is not None


@pytest.fixture(params=["quick", "asked"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "asked":
        monkeypatch.setattr(twister, "_numpy_lies_as_known", lambda: False)
        monkeypatch.setattr(twister, "_python_lies_as_known", lambda: False)
        monkeypatch.setattr(twister, "_half_offset", lambda: None)
    return str(request.param)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("count", COUNTS)
def test_numpy(count: int) -> None:
    one = np.random.MT19937(9)
    one.random_raw(count)
    state = one.state["state"]
    assert of_numpy(one) == (state["key"].tobytes(), state["pos"], None)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("count", COUNTS)
def test_legacy(count: int) -> None:
    one = np.random.RandomState(9)
    one.standard_normal(count)
    state = one.get_state(legacy=False)
    half = state["gauss"] if state["has_gauss"] else None
    assert of_legacy(one) == (state["state"]["key"].tobytes(), state["state"]["pos"], half)
    assert one.get_state(legacy=False)["has_gauss"] == state["has_gauss"]


def test_another_kind_is_no_twister() -> None:
    assert of_legacy(np.random.RandomState(np.random.PCG64(3))) is None


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("count", COUNTS)
def test_python(count: int) -> None:
    one = random.Random(9)
    for _ in range(count):
        one.gauss(0, 1)
    _, words, half = one.getstate()
    found = of_python(one)
    assert (found.position, found.half) == (words[-1], half)
    assert np.frombuffer(found.key, np.uint32).tolist() == list(words[:-1])


def test_a_class_that_tells_its_state_itself_is_asked() -> None:
    class Told(random.Random):
        def getstate(self):  # type: ignore[no-untyped-def]
            return 3, (*range(624), 5), None

    assert of_python(Told(1)).position == 5


@pytest.mark.usefixtures("way")
def test_a_followed_one_is_read_anew_where_it_moved() -> None:
    one, other = random.Random(1), np.random.RandomState(1)
    moves = {
        Followed(one): [
            one.random,
            lambda: one.gauss(0, 1),
            lambda: one.gauss(0, 1),
            lambda: [one.random() for _ in range(312)],  # All its words, once: as many as it has.
            lambda: one.seed(5),
            lambda: setattr(one, "gauss_next", 0.5),
        ],
        Followed(other): [
            other.random_sample,
            other.standard_normal,
            other.standard_normal,
            lambda: other.random_sample(312),
            lambda: other.seed(5),
            lambda: other.set_state(np.random.RandomState(6).get_state()),
        ],
    }
    for followed, each in moves.items():
        for move in each:
            before = followed.state()
            assert followed.state() == before
            move()
            after = followed.state()
            assert after != before
            assert after == (of_python(one) if followed._is_python else of_legacy(other))


def test_a_followed_one_whose_kind_is_changed() -> None:
    before = np.random.get_bit_generator()
    followed = Followed(np.random.mtrand._rand)
    try:
        known = followed.state()
        np.random.set_bit_generator(np.random.PCG64(1))
        assert followed.state() is None
        np.random.set_bit_generator(np.random.MT19937(1))
        assert followed.state() == of_legacy(np.random.mtrand._rand) != known
    finally:
        np.random.set_bit_generator(before)
    assert followed.state() == known

"""Drawing is told from seeding again; nothing that is looked at moves."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from everybit.core.contents import Moved
from everybit.probe.contents.streams import Streams, how_moved, state_of

GENERATORS = {
    "numpy": lambda: np.random.default_rng(3),
    "philox": lambda: np.random.Generator(np.random.Philox(3)),
    "twister": lambda: np.random.Generator(np.random.MT19937(3)),
    "legacy": lambda: np.random.RandomState(3),
    "python": lambda: random.Random(3),
    "torch": lambda: torch.Generator().manual_seed(3),
}


def draw(generator, count=1):
    if isinstance(generator, torch.Generator):
        torch.rand(count, generator=generator)
    elif isinstance(generator, random.Random):
        [generator.random() for _ in range(count)]
    else:
        generator.random(count) if count > 1 else generator.random()


def seed_again(kind, generator):
    if kind == "torch":
        generator.manual_seed(4)
    elif kind in ("python", "legacy"):
        generator.seed(4)
    else:
        other = {"numpy": np.random.PCG64, "philox": np.random.Philox, "twister": np.random.MT19937}
        generator.bit_generator.state = other[kind](4).state


@pytest.mark.parametrize("kind", GENERATORS)
@pytest.mark.parametrize("count", [1, 400, 3000])
def test_drawing(kind, count):
    generator = GENERATORS[kind]()
    draw(generator)
    before = state_of(generator)
    assert how_moved(before, state_of(generator)) is Moved.NO
    draw(generator, count)
    assert how_moved(before, state_of(generator)) is Moved.DRAWN


@pytest.mark.parametrize("kind", GENERATORS)
def test_seeding_again(kind):
    generator = GENERATORS[kind]()
    before = state_of(generator)
    seed_again(kind, generator)
    draw(generator, 5)
    assert how_moved(before, state_of(generator)) is Moved.RESEEDED


def test_looking_moves_nothing():
    streams = Streams({"own": np.random.default_rng(0)})
    before = (random.getstate(), np.random.get_state(legacy=False), torch.get_rng_state().tolist())
    streams.begin()
    assert streams.word() == streams.word()
    assert streams.end() == (False, ())
    after = (random.getstate(), np.random.get_state(legacy=False), torch.get_rng_state().tolist())
    assert str(before) == str(after)


def test_what_is_drawn_is_told_once_and_each_time():
    own = np.random.default_rng(0)
    streams = Streams({"dataset.rng": own})
    for number in range(2):
        streams.begin()
        own.random()
        drew, told = streams.end()
        assert drew
        assert [each.name for each in told] == (["dataset.rng"] if not number else [])


def test_the_second_of_a_pair_of_normal_numbers_is_a_draw():
    streams = Streams({})
    state = np.random.get_state()
    try:
        np.random.seed(0)
        for _ in range(4):
            streams.begin()
            np.random.standard_normal()
            assert streams.end()[0]
    finally:
        np.random.set_state(state)


def test_what_is_drawn_as_a_batch_is_put_together_is_seen_where_it_is_left():
    own = np.random.default_rng(0)
    streams = Streams({"dataset.rng": own}, quiet_between=True)
    for draws in (False, True, False):
        streams.begin()
        assert streams.end() == (False, ())
        if draws:
            own.random()
        assert streams.left() is draws

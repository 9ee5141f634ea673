"""Random streams: each is seen, none moves."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from everybit.probe.rng import rng_words


def states() -> tuple:
    name, keys, position, has_gauss, cached = np.random.get_state()
    return (
        random.getstate(),
        (name, keys.tolist(), position, has_gauss, cached),
        torch.get_rng_state().tolist(),
    )


def test_looking_draws_nothing() -> None:
    before = states()
    assert rng_words() == rng_words()
    assert states() == before


@pytest.mark.parametrize(
    ("stream", "draw"),
    [
        ("python", random.random),
        ("python", lambda: random.gauss(0, 1)),
        ("numpy", np.random.rand),
        ("numpy", np.random.randn),
        ("torch", lambda: torch.rand(1)),
        ("torch", lambda: torch.randn(1)),
    ],
)
def test_a_draw_moves_its_stream_only(stream: str, draw) -> None:
    before = rng_words()
    draw()
    after = rng_words()
    assert before.keys() == after.keys() >= {"python", "numpy", "torch"}
    assert [name for name in after if after[name] != before[name]] == [stream]


def test_the_same_seed_gives_the_same_words() -> None:
    def seeded() -> dict[str, int]:
        random.seed(3)
        np.random.seed(3)
        torch.manual_seed(3)
        return rng_words()

    assert seeded() == seeded()


def test_another_kind_of_numpy_generator_is_read_too() -> None:
    before = np.random.get_bit_generator()
    try:
        np.random.set_bit_generator(np.random.PCG64(1))
        first = rng_words()
        np.random.rand()
        assert rng_words()["numpy"] != first["numpy"]
    finally:
        np.random.set_bit_generator(before)

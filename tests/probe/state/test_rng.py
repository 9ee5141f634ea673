"""The random generators as a value."""

from __future__ import annotations

import random

import numpy as np
import torch

from everybit.probe.state import RngState


def draw() -> list[float]:
    return [
        random.random(),
        random.gauss(0, 1),
        float(np.random.rand()),
        float(np.random.standard_normal()),
        float(torch.rand(())),
        *torch.nn.functional.dropout(torch.ones(20), 0.5).tolist(),
    ]


def test_every_stream_goes_back_and_nothing_is_drawn() -> None:
    draw()
    state = RngState.capture()
    words = state.words()
    assert RngState.capture().words() == words
    first = draw()
    moved = RngState.capture().words()
    assert {name for name in words if moved[name] != words[name]} == {"python", "numpy", "torch"}
    state.restore()
    assert RngState.capture().words() == words
    assert draw() == first
    state.restore()
    assert draw() == first


def test_another_bit_generator_of_numpy_goes_back() -> None:
    old = np.random.get_bit_generator()
    try:
        np.random.set_bit_generator(np.random.PCG64(3))
        state = RngState.capture()
        words = state.words()
        first = np.random.rand(3).tolist()
        assert RngState.capture().words() != words
        state.restore()
        assert np.random.rand(3).tolist() == first
    finally:
        np.random.set_bit_generator(old)

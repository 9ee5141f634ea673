"""Digests of the random streams of Python, NumPy, torch and accelerators; nothing is drawn."""

from __future__ import annotations

import random
import sys
from typing import Any

import torch
import xxhash

from everybit.probe.twister import Twister, of_legacy, of_python


def rng_words() -> dict[str, int]:
    """Return one word a stream: the state of each global generator in use.

    `numpy` appears once NumPy's legacy global generator exists, devices once they are
    initialised; no sync on CPU.
    """
    words = {"python": _python_word(), "torch": _tensor_word(torch.get_rng_state())}
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        words["numpy"] = _numpy_word(numpy_random)
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        for index in range(torch.cuda.device_count()):
            words[f"cuda:{index}"] = _tensor_word(torch.cuda.get_rng_state(index))
    return words


def _python_word() -> int:
    return _twister_word(of_python(random._inst))


def _numpy_word(numpy_random: Any) -> int:
    twister = of_legacy(numpy_random.mtrand._rand)
    if twister is None:  # Another bit generator than MT19937 was put in its place.
        state = numpy_random.get_state(legacy=False)
        return xxhash.xxh3_64_intdigest(repr(state).encode())
    return _twister_word(twister)


def _twister_word(twister: Twister) -> int:
    head = f"{twister.position}:{twister.half!r}".encode()
    return xxhash.xxh3_64_intdigest(head + twister.key)


def _tensor_word(state: torch.Tensor) -> int:
    return xxhash.xxh3_64_intdigest(state.numpy().data)

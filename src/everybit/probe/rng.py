"""Digests of the random streams of Python, NumPy, torch and accelerators; nothing is drawn."""

from __future__ import annotations

import random
import sys
from typing import Any

import torch
import xxhash


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
    _, state, gauss = random.getstate()
    return xxhash.xxh3_64_intdigest(repr((state, gauss)).encode())


def _numpy_word(numpy_random: Any) -> int:
    state = numpy_random.get_state(legacy=False)
    inner = state["state"]
    keys = inner.get("key")
    if keys is None:  # Another bit generator than MT19937 was put in its place.
        return xxhash.xxh3_64_intdigest(repr(state).encode())
    head = f"{inner['pos']}:{state['has_gauss']}:{state['gauss']!r}".encode()
    return xxhash.xxh3_64_intdigest(head + keys.tobytes())


def _tensor_word(state: torch.Tensor) -> int:
    return xxhash.xxh3_64_intdigest(state.numpy().tobytes())

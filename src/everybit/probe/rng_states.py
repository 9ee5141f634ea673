"""The states of the random generators, so that a scene can be gone on from; nothing is drawn."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
import torch

from everybit.ledger import RngStates


def rng_states() -> RngStates:
    """Return the states of Python's, NumPy's and torch's global generators, devices included.

    Devices count once they are initialised; asking for their state is a sync.
    """
    version, words, gauss = random.getstate()
    arrays: dict[str, Any] = {
        "python": np.array(words, np.uint32),
        "torch": torch.get_rng_state().numpy().copy(),
    }
    facts: dict[str, Any] = {"python": {"version": version, "gauss": gauss}}
    missing: dict[str, str] = {}
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        _add_numpy(numpy_random, arrays, facts, missing)
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        for index in range(torch.cuda.device_count()):
            arrays[f"cuda:{index}"] = torch.cuda.get_rng_state(index).numpy().copy()
    for kind in ("mps", "xpu"):
        if getattr(torch, kind).is_available():
            missing[kind] = "states of these devices are not kept"
    return RngStates(arrays=arrays, facts=facts, missing=missing)


def _add_numpy(
    numpy_random: Any, arrays: dict[str, Any], facts: dict[str, Any], missing: dict[str, str]
) -> None:
    state = numpy_random.get_state(legacy=False)
    if state.get("bit_generator") != "MT19937":
        missing["numpy"] = f"another generator is in its place ({state.get('bit_generator')})"
        return
    arrays["numpy"] = state["state"]["key"].astype(np.uint32)
    facts["numpy"] = {
        "pos": int(state["state"]["pos"]),
        "has_gauss": int(state["has_gauss"]),
        "gauss": float(state["gauss"]),
    }

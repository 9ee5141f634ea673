"""The states of the random generators, so that a scene can be gone on from; nothing is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from everybit.ledger import RngStates
from everybit.probe.state.rng import RngState


def rng_states() -> RngStates:
    """Return the states of Python's, NumPy's and torch's global generators, devices included.

    Devices count once they are initialised; asking for their state is a sync.
    """
    now = RngState.capture()
    version, words, gauss = now.python
    arrays: dict[str, Any] = {
        "python": np.array(words, np.uint32),
        "torch": now.cpu.numpy().copy(),
    }
    facts: dict[str, Any] = {"python": {"version": version, "gauss": gauss}}
    missing: dict[str, str] = {}
    if now.numpy is not None:
        _add_numpy(now.numpy, arrays, facts, missing)
    for index, state in enumerate(now.devices):
        arrays[f"cuda:{index}"] = state.numpy().copy()
    for kind in ("mps", "xpu"):
        if getattr(torch, kind).is_available():
            missing[kind] = "states of these devices are not kept"
    return RngStates(arrays=arrays, facts=facts, missing=missing)


def _add_numpy(
    state: dict[str, Any],
    arrays: dict[str, Any],
    facts: dict[str, Any],
    missing: dict[str, str],
) -> None:
    if state.get("bit_generator") != "MT19937":
        missing["numpy"] = f"another generator is in its place ({state.get('bit_generator')})"
        return
    arrays["numpy"] = state["state"]["key"].astype(np.uint32)
    facts["numpy"] = {
        "pos": int(state["state"]["pos"]),
        "has_gauss": int(state["has_gauss"]),
        "gauss": float(state["gauss"]),
    }

"""The modes of torch under which a step is computed, as plain values, and computing under them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def read_settings() -> dict[str, Any]:
    """Return what the numbers of this process depend on and what can be set here."""
    return {
        "threads": torch.get_num_threads(),
        "precision": torch.get_float32_matmul_precision(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "mkldnn": bool(torch.backends.mkldnn.enabled),
        "default_dtype": str(torch.get_default_dtype()),
    }


def apply_settings(settings: Mapping[str, Any]) -> None:
    """Compute from now on under these; what is not among them stays as it is."""
    if "threads" in settings:
        torch.set_num_threads(int(settings["threads"]))
    if "precision" in settings:
        torch.set_float32_matmul_precision(str(settings["precision"]))
    if "deterministic" in settings:
        torch.use_deterministic_algorithms(bool(settings["deterministic"]), warn_only=True)
    if "mkldnn" in settings:
        torch._C._set_mkldnn_enabled(bool(settings["mkldnn"]))


@contextmanager
def under(settings: Mapping[str, Any]) -> Iterator[None]:
    """Compute under these settings for a while."""
    before = read_settings()
    try:
        apply_settings(settings)
        yield
    finally:
        apply_settings(before)

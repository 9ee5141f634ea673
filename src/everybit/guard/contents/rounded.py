"""Samples that come back in fewer bits: from a cache that keeps them in a narrower type."""

from __future__ import annotations

from typing import Any, Final

import torch

from everybit.probe.digest import flatten

_WIDE: Final = (torch.float32, torch.float64)
_NARROW: Final = (torch.float16, torch.bfloat16)


class Rounded:
    """Tell rows that could be kept in 16 bits from what a loader gave at first.

    A float32 number is one of float16 or bfloat16 by chance once in some thousand times, so a row
    of them is none, unless the data are made of such numbers from the start.
    """

    def __init__(self) -> None:
        self._wide: set[str] | None = None
        self._leaves: dict[str, torch.Tensor] = {}

    def look_at(self, batch: Any) -> None:
        """Take a batch that is being delivered; it is let go of by `done`."""
        self._leaves = {
            path: leaf
            for path, leaf in flatten(batch)
            if isinstance(leaf, torch.Tensor) and leaf.dtype in _WIDE and leaf.is_cpu and leaf.dim()
        }
        if self._wide is None:
            self._wide = {path for path, leaf in self._leaves.items() if not _is_narrow(leaf)}

    def is_rounded(self, path: str, row: int) -> bool:
        """Whether a row of the batch is of fewer bits than the first batch was."""
        leaf = self._leaves.get(path)
        if leaf is None or path not in (self._wide or ()) or row >= len(leaf):
            return False
        values = leaf[row].detach()
        # A blank row is of few bits, and is no sample.
        return _is_narrow(values) and len(set(values.flatten()[:64].tolist())) > 2

    def done(self) -> None:
        """Let go of the batch."""
        self._leaves = {}


def _is_narrow(values: torch.Tensor) -> bool:
    held = values.detach()
    return any(torch.equal(held.to(dtype).to(held.dtype), held) for dtype in _NARROW)

"""Samples that come back in fewer bits: from a cache that keeps them in a narrower type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from everybit.probe.digest import flatten

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Rows of a batch that are looked at, or a few more, to tell whether it is of wide values, and
#: values of each.
MAX_ROWS: Final = 32
MAX_VALUES: Final = 1024
_WIDE: Final = (torch.float32, torch.float64)
_NARROW: Final = (torch.float16, torch.bfloat16)


class Rounded:
    """Tell rows that could be kept in 16 bits from what a loader gave at first.

    A float32 number is one of float16 or bfloat16 by chance once in some thousand times, so a row
    of them is none, unless the data are made of such numbers from the start.
    """

    def __init__(self) -> None:
        self._wide: set[str] | None = None
        self._batch: Any = None

    def look_at(self, batch: Any) -> None:
        """Take a batch that is being delivered; it is let go of by `done`."""
        self._batch = batch
        if self._wide is None:
            self._wide = {path for path, leaf in _leaves(batch) if not _is_narrow(_some_of(leaf))}

    def is_rounded(self, path: str, row: int) -> bool:
        """Whether a row of the batch is of fewer bits than the first batch was."""
        if path not in (self._wide or ()):
            return False
        leaf = dict(_leaves(self._batch)).get(path)
        if leaf is None or row >= len(leaf):
            return False
        values = leaf[row].detach()
        # A blank row is of few bits, and is no sample.
        return _is_narrow(values) and len(set(values.flatten()[:64].tolist())) > 2

    def done(self) -> None:
        """Let go of the batch."""
        self._batch = None


def _leaves(batch: Any) -> Iterator[tuple[str, torch.Tensor]]:
    for path, leaf in flatten(batch):
        if isinstance(leaf, torch.Tensor) and leaf.dtype in _WIDE and leaf.is_cpu and leaf.dim():
            yield path, leaf


def _some_of(leaf: torch.Tensor) -> torch.Tensor:
    """Return the middle of some rows, evenly spaced: of a large batch most is not read yet."""
    if leaf.numel() <= MAX_ROWS * MAX_VALUES or leaf.dim() < 2:
        return leaf
    rows = leaf.detach()[:: max(1, len(leaf) // MAX_ROWS)].flatten(1)
    first = max(0, (rows.shape[1] - MAX_VALUES) // 2)
    return rows[:, first : first + MAX_VALUES]


def _is_narrow(values: torch.Tensor) -> bool:
    held = values.detach()
    return any(torch.equal(held.to(dtype).to(held.dtype), held) for dtype in _NARROW)

"""Marks of tensors on an accelerator: grid sums kept and compared there, read once a test.

The check compares row and column sums: what it cannot see are differences that cancel in every row
and every column (`everybit.core.grid` names them).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from everybit.core.grid import GridSums
from everybit.core.grid_locate import locate
from everybit.guard.placement import Placement
from everybit.probe.grid_device import DeviceSums, device_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from everybit.core.grid_locate import BlockDamage
    from everybit.guard.tracked import Tracked

    Bytes = NDArray[np.uint8]


class DeviceMarks(Placement):
    """Marks of a fixed list of tensors on accelerators; the twin of `Marks`.

    Args:
        tracked: The tensors. Each must have readable bytes.
        shadow: Keep copies on the device.
    """

    def __init__(self, tracked: Sequence[Tracked], *, shadow: bool = False) -> None:
        super().__init__(tracked)
        self._sums: list[DeviceSums | None] = [None] * len(self.tracked)
        self._shadow = shadow
        self._shadows: list[torch.Tensor | None] = [None] * len(self.tracked)

    def take(self) -> None:
        """Mark every tensor as it is now; launches only, no sync."""
        for index in range(len(self.tracked)):
            self.take_one(index)

    @torch.no_grad()
    def take_one(self, index: int) -> None:
        """Mark one tensor as it is now; launches only, no sync."""
        memory = self.memories[index]
        self.note_version(index)
        self._sums[index] = DeviceSums.of(memory)
        if self._shadow:
            self._shadows[index] = memory.flat().view(torch.uint8).clone()

    def fingerprint(self, index: int) -> int | bytes | None:
        """Return None: what stands for a tensor's bytes is on the device."""
        return None

    @torch.no_grad()
    def compare(self, indices: Sequence[int]) -> torch.Tensor:
        """Return a bool tensor on the device: whether each tensor's sums changed; no sync."""
        flags = []
        for index in indices:
            marked = self._sums[index]
            assert marked is not None
            found = DeviceSums.of(self.memories[index])
            rows = (found.rows != marked.rows).any()
            flags.append(rows | (found.cols != marked.cols).any())
        return torch.stack(flags)

    @torch.no_grad()
    def words(self) -> torch.Tensor:
        """Return the recorded digest of every tensor as marked (int64 on the device)."""
        words = []
        for index, item in enumerate(self.tracked):
            marked = self._sums[index]
            assert marked is not None
            tensor = item.local
            if tensor.is_contiguous():
                words.append(marked.digest(self.memories[index].dtype, tuple(tensor.shape)))
            else:
                words.append(device_digest(tensor))
        return torch.stack(words)

    def sums(self, index: int) -> GridSums:
        """Return the marked grid sums of a tensor (a sync)."""
        marked = self._sums[index]
        assert marked is not None
        return marked.to_host()

    def frozen(self) -> Callable[[int], GridSums]:
        """Return `sums` of the marks as they are now, whatever is marked later."""
        marked = list(self._sums)

        def sums(index: int) -> GridSums:
            kept = marked[index]
            assert kept is not None
            return kept.to_host()

        return sums

    def blocks(self, index: int, found: Bytes) -> list[BlockDamage]:
        """Return where `found` (on the host) differs from the mark (a sync)."""
        return locate(self.sums(index), GridSums.of(found.data))

    def right_bytes(self, index: int) -> Bytes | None:
        """Return the marked bytes where an undamaged shadow copy is kept, else None (a sync)."""
        shadow = self._shadows[index]
        if shadow is None:
            return None
        data: Bytes = shadow.cpu().numpy()
        return data if self.agrees(index, data) else None

    def agrees(self, index: int, data: Bytes) -> bool:
        """Whether `data` has the marked sums, rows and columns."""
        return GridSums.of(data.data).equals(self.sums(index))

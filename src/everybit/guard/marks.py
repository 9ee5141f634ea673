"""Marks: what carried tensors looked like when their last legitimate writer left them.

On the CPU a mark is the bytes themselves for a tensor of at most one grid row (2,008 bytes); for a
larger one its XXH3-64, which sees every change wherever it lies, and its grid sums, which tell
the place and the right bits. Shadow copies add the bytes of the large ones.
"""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING

import numpy as np
import xxhash

from everybit.core.damage import Role
from everybit.core.grid import BLOCK_BYTES, ROW_BYTES, GridSums
from everybit.core.grid_locate import locate
from everybit.guard.placement import Placement
from everybit.probe.numerics import read_norms
from everybit.probe.sums import sum_layout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from everybit.core.grid import Words
    from everybit.core.grid_locate import BlockDamage
    from everybit.guard.tracked import Tracked

    Bytes = NDArray[np.uint8]

_MEASURED = (Role.PARAMETER, Role.GRADIENT)


class Marks(Placement):
    """Marks of a fixed list of CPU tensors, refreshed after each legitimate write.

    Args:
        tracked: The tensors. Each must have readable bytes.
        shadow: Keep copies of the large ones too.
    """

    def __init__(self, tracked: Sequence[Tracked], *, shadow: bool = False) -> None:
        super().__init__(tracked)
        count = len(self.tracked)
        self._views: list[Bytes | None] = [None] * count
        self._verbatim: list[bytes | None] = [None] * count
        self._hashes = [0] * count
        self._norms: list[float | None] = [None] * count
        self._seeds = [0] * count
        self._layout = sum_layout(
            [(m.dtype, tuple(m.tensor.shape), m.num_bytes) for m in self.memories]
        )
        self._vector = self._layout.new_vector()
        self._shadows: list[Bytes | None] = [None] * count
        self._shadow = shadow
        for index, memory in enumerate(self.memories):
            if memory.dense and self._sizes[index] > ROW_BYTES:
                self._views[index] = memory.bytes_()

    def take(self) -> None:
        """Mark every tensor as it is now."""
        raws = []
        for index in range(len(self.tracked)):
            self.note_version(index)
            if self._sizes[index] > ROW_BYTES:
                self._take_large(index)
            else:
                raw = self._read_small(index)
                self._verbatim[index] = raw
                if raw:
                    raws.append(raw)
        self._layout.fill_small(self._vector, raws)

    def take_one(self, index: int) -> None:
        """Mark one tensor as it is now."""
        self.note_version(index)
        if self._sizes[index] > ROW_BYTES:
            self._take_large(index)
            return
        raw = self._read_small(index)
        self._verbatim[index] = raw
        self._layout.fill(self._vector, index, np.frombuffer(raw, np.uint8))

    def _take_large(self, index: int, *, rows: bool = True) -> None:
        view = self._views[index]
        if view is None:
            view = self.memories[index].bytes_()
        if len(view) <= BLOCK_BYTES:
            self._hashes[index] = xxhash.xxh3_64_intdigest(view.data, seed=self._seeds[index])
            self._layout.fill(self._vector, index, view, rows=rows)
        else:
            hasher = xxhash.xxh3_64(seed=self._seeds[index])
            self._layout.fill(self._vector, index, view, hasher, rows=rows)
            self._hashes[index] = hasher.intdigest()
        if self.measure and self.tracked[index].role in _MEASURED:
            self._norms[index] = read_norms([self.memories[index].tensor], math.nan).values[0]
        if self._shadow:
            shadow = self._shadows[index]
            if shadow is None:
                shadow = self._shadows[index] = np.empty(len(view), np.uint8)
            np.copyto(shadow, view)

    def differs(self, index: int) -> bool:
        """Whether the bytes are not the marked ones. Call only where `same_memory` holds."""
        if self._sizes[index] <= ROW_BYTES:
            return self._read_small(index) != self._verbatim[index]
        view = self._views[index]
        if view is None:
            view = self.memories[index].bytes_()
        return xxhash.xxh3_64_intdigest(view.data, self._seeds[index]) != self._hashes[index]

    def fingerprint(self, index: int) -> int | bytes | None:
        """Return what stands for a tensor's bytes as marked: equal where they are equal."""
        verbatim = self._verbatim[index]
        return self._hashes[index] if verbatim is None else verbatim

    def norm(self, index: int) -> float | None:
        """Return the L2 norm of a tensor as marked; None where it was not measured."""
        norm = self._norms[index] if self.measure else None
        return None if norm is None or math.isnan(norm) else norm

    def compare(self, indices: Sequence[int]) -> list[bool]:
        """Return whether each tensor's bytes differ from its mark."""
        return [self.differs(index) for index in indices]

    def words(self) -> Words:
        """Return the recorded digest of every tensor as marked (canonical, row-major bytes)."""
        words = self._layout.digests(self._vector)
        for index, item in enumerate(self.tracked):
            if not item.local.is_contiguous():
                words[index] = _canonical_word(item)
        return words

    def sums(self, index: int) -> GridSums:
        """Return the marked grid sums of a tensor, over its bytes in memory order."""
        return self._layout.sums(self._vector, index)

    def frozen(self) -> Callable[[int], GridSums]:
        """Return `sums` of the marks as they are now, whatever is marked later."""
        vector = self._vector.copy()
        return lambda index: self._layout.sums(vector, index)

    def blocks(self, index: int, found: Bytes) -> list[BlockDamage]:
        """Return where `found` differs from the mark."""
        return locate(self.sums(index), GridSums.of(found.data))

    def right_bytes(self, index: int) -> Bytes | None:
        """Return the marked bytes where a whole, undamaged copy is kept, else None."""
        verbatim = self._verbatim[index]
        if verbatim is not None:
            return np.frombuffer(verbatim, np.uint8)
        shadow = self._shadows[index]
        return shadow if shadow is not None and self.agrees(index, shadow) else None

    def agrees(self, index: int, data: Bytes) -> bool:
        """Whether `data` has the marked fingerprint."""
        verbatim = self._verbatim[index]
        if verbatim is not None:
            return data.tobytes() == verbatim
        return xxhash.xxh3_64_intdigest(data.data, self._seeds[index]) == self._hashes[index]

    def _read_small(self, index: int) -> bytes:
        if self.memories[index].dense:
            return ctypes.string_at(self._pointers[index], self._sizes[index])
        return self.memories[index].bytes_().tobytes()


def _canonical_word(item: Tracked) -> int:
    from everybit.probe.digest import grid_words

    return int(grid_words([item.local.detach()])[0])

"""Where tracked tensors lay, and their version counters, when they were last marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.guard.shards import local_of, version_of
from everybit.probe.memory import TensorMemory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.guard.tracked import Tracked


class Placement:
    """A fixed list of tensors, and what tells a write or a move since the last mark.

    This is asked for every tensor at every boundary: it looks at addresses, shapes and counters
    only.

    Args:
        tracked: The tensors. Each must have readable bytes.

    Attributes:
        measure: Measure the norms of large tensors on the CPU as they are marked, while they are
            in the cache.
    """

    def __init__(self, tracked: Sequence[Tracked]) -> None:
        self.measure = False
        self.tracked = list(tracked)
        self._tensors = [item.tensor for item in self.tracked]
        locals_ = [item.local for item in self.tracked]
        self._sharded = [
            local is not item.tensor for local, item in zip(locals_, self.tracked, strict=True)
        ]
        self.memories = [TensorMemory.of(local) for local in locals_]
        self._pointers = [local.data_ptr() for local in locals_]
        self._shapes = [local.shape for local in locals_]
        self._dtypes = [local.dtype for local in locals_]
        self._counted = [not local.is_inference() for local in locals_]
        self._versions = [version_of(tensor) for tensor in self._tensors]
        self._sizes = [memory.num_bytes for memory in self.memories]

    def __len__(self) -> int:
        return len(self.tracked)

    @property
    def num_bytes(self) -> int:
        """Bytes under marks."""
        return sum(self._sizes)

    def size_of(self, index: int) -> int:
        """Return the bytes of a tensor."""
        return self._sizes[index]

    def fits(self, tracked: Sequence[Tracked]) -> bool:
        """Whether the same tensors, in the same memory, can be marked again in place."""
        return len(tracked) == len(self.tracked) and all(
            new.tensor is old.tensor
            and new.holder is old.holder
            and new.key == old.key
            and self.same_memory(index)
            for index, (new, old) in enumerate(zip(tracked, self.tracked, strict=True))
        )

    def lies_still(self) -> bool:
        """Whether every tensor is held where it was, in the memory where it was."""
        return all(
            item.in_place and self.same_memory(index) for index, item in enumerate(self.tracked)
        )

    def same_memory(self, index: int) -> bool:
        """Whether the tensor still lies where it was marked."""
        tensor = self._tensors[index]
        if self._sharded[index]:
            tensor = local_of(tensor)
        return (
            tensor.data_ptr() == self._pointers[index]
            and tensor.shape == self._shapes[index]
            and tensor.dtype is self._dtypes[index]
        )

    def version_moved(self, index: int) -> bool:
        """Whether a write through torch was counted since the mark."""
        return self._counted[index] and self._version(index) != self._versions[index]

    def note_version(self, index: int) -> None:
        """Take the version counter as it is now."""
        if self._counted[index]:
            self._versions[index] = self._version(index)

    def _version(self, index: int) -> int:
        tensor = self._tensors[index]
        return version_of(tensor) if self._sharded[index] else tensor._version

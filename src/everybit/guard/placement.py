"""Where tracked tensors lay, and their version counters, when they were last marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.probe.memory import TensorMemory, version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.guard.tracked import Tracked


class Placement:
    """A fixed list of tensors, and what tells a write or a move since the last mark.

    This is asked for every tensor at every boundary: it looks at addresses, shapes and counters
    only.

    Args:
        tracked: The tensors. Each must have readable bytes.
    """

    def __init__(self, tracked: Sequence[Tracked]) -> None:
        self.tracked = list(tracked)
        self._tensors = [item.tensor for item in self.tracked]
        self.memories = [TensorMemory.of(tensor) for tensor in self._tensors]
        self._pointers = [tensor.data_ptr() for tensor in self._tensors]
        self._shapes = [tensor.shape for tensor in self._tensors]
        self._dtypes = [tensor.dtype for tensor in self._tensors]
        self._counted = [not tensor.is_inference() for tensor in self._tensors]
        self._versions = [version(tensor) for tensor in self._tensors]
        self._sizes = [memory.num_bytes for memory in self.memories]

    def __len__(self) -> int:
        return len(self.tracked)

    @property
    def num_bytes(self) -> int:
        """Bytes under marks."""
        return sum(self._sizes)

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
        return (
            tensor.data_ptr() == self._pointers[index]
            and tensor.shape == self._shapes[index]
            and tensor.dtype is self._dtypes[index]
        )

    def version_moved(self, index: int) -> bool:
        """Whether a write through torch was counted since the mark."""
        return self._counted[index] and self._tensors[index]._version != self._versions[index]

    def note_version(self, index: int) -> None:
        """Take the version counter as it is now."""
        if self._counted[index]:
            self._versions[index] = self._tensors[index]._version

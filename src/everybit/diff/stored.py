"""A tensor of a model file as a diff sees it, whatever the format."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from everybit.core.digest import Digest

#: Bytes of each side read at a time; a multiple of every element size. Two fit a cache.
CHUNK_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredTensor:
    """One stored tensor.

    Attributes:
        path: Its file, relative to what the user named.
        name: Dotted key path in the file.
        dtype: Canonical dtype name.
        shape: Shape.
        num_bytes: Length of the canonical bytes.
        tree: Digest of the canonical bytes, where it is known already.
        unreadable: Why its bytes cannot be read; empty where they can.
        storage: Where the bytes lie; equal for tensors of a file that are the same bytes.
        read: Returns canonical bytes `[start, end)`.
        fill: Fills a buffer with canonical bytes from `start` on and returns how many there were,
            where that is cheaper than `read`.
        offset: File offset of the first canonical byte, where they lie in the file as they are.
        num_held: Canonical bytes that the file still holds, where it was cut; else all.
        vouch: Tells whether the file's own checksum over the tensor's bytes holds; None with none.
    """

    path: str
    name: str
    dtype: str
    shape: tuple[int, ...]
    num_bytes: int
    tree: Digest | None = None
    unreadable: str = ""
    storage: tuple[object, ...] = ()
    read: Callable[[int, int], bytes]
    fill: Callable[[int, memoryview], int] | None = None
    offset: int | None = None
    num_held: int | None = None
    vouch: Callable[[], bool | None] | None = None

    @property
    def num_elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes an element."""
        return self.num_bytes // max(prod(self.shape), 1)

    @property
    def held(self) -> int:
        """Bytes that can be read, a whole number of elements."""
        if self.num_held is None:
            return self.num_bytes
        return min(self.num_held, self.num_bytes) // max(self.itemsize, 1) * self.itemsize


class SideBySide:
    """Two stored tensors of one length, in chunks; equal chunks cost a read and a comparison."""

    def __init__(self, a: StoredTensor, b: StoredTensor) -> None:
        self.a, self.b = a, b
        self.num_bytes = min(a.held, b.held)

    def differing(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield `(start, bytes of A, bytes of B)` of each chunk that is not equal."""
        size = CHUNK_BYTES
        whole = self.num_bytes // size * size
        fill_a, fill_b = self.a.fill, self.b.fill
        start = 0
        if fill_a is not None and fill_b is not None and whole:
            one, other = bytearray(size), bytearray(size)
            into_a, into_b = memoryview(one), memoryview(other)
            for start in range(0, whole, size):
                if fill_a(start, into_a) != size or fill_b(start, into_b) != size:
                    break
                # Two bytearrays compare by memcmp, two views element by element.
                if one != other:
                    yield start, bytes(one), bytes(other)
            else:
                start = whole
        for begin in range(start, self.num_bytes, size):
            end = min(begin + size, self.num_bytes)
            # A file that shrank meanwhile gives less; whoever opened it tells.
            length = end - begin
            left, right = (each.read(begin, end).ljust(length, b"\0") for each in (self.a, self.b))
            if left != right:
                yield begin, left, right

"""A tensor of a model from its parts: canonical bytes, wherever the pieces of it lie."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from everybit.core.tree import TreeHasher
from everybit.files.elements import canonical_chunks
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from everybit.core.digest import Digest
    from everybit.files.tensor import FileTensor

#: Bytes of a tensor put together at once.
_BLOCK_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A piece of a tensor, as one file holds it.

    Attributes:
        path: The file, relative to the model's path; "" for the model's path itself.
        tensor: The stored tensor.
        offset: Where its first element stands in the whole tensor, along each dimension.
        shape: Its shape.
    """

    path: str
    tensor: FileTensor
    offset: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """What is needed to read a tensor: where it lies, of which shape, in which parts."""

    root: Path
    itemsize: int
    shape: tuple[int, ...]
    parts: tuple[Part, ...]

    @property
    def num_bytes(self) -> int:
        """Length of the canonical bytes."""
        return math.prod(self.shape) * self.itemsize

    def place(self, part: Part) -> Path:
        """Return the file that holds a part."""
        return self.root / part.path if part.path else self.root

    @property
    def whole(self) -> Part | None:
        """The only part, where one is all."""
        only = self.parts[0] if len(self.parts) == 1 else None
        return only if only is not None and only.shape == self.shape else None


def assembled_chunks(
    whole: Assembly, start: int = 0, end: int | None = None
) -> Iterator[bytes | memoryview]:
    """Yield canonical bytes `[start, end)` in order, as short-lived buffers.

    Raises:
        PathError: A file cannot be read.
    """
    end = whole.num_bytes if end is None else min(end, whole.num_bytes)
    if start >= end:
        return
    only = whole.whole
    if only is not None:
        with ByteSource(whole.place(only)) as source:
            yield from canonical_chunks(source, only.tensor, start, end)
        return
    yield from _joined(whole, start, end)


def _joined(whole: Assembly, start: int, end: int) -> Iterator[memoryview]:
    lead = _leading_ones(whole)
    shape = whole.shape[lead:]
    row = math.prod(shape[1:]) * whole.itemsize
    rows = max(1, _BLOCK_BYTES // row)
    first, last = start // row, -(-end // row)
    sources: dict[Path, ByteSource] = {}
    try:
        for low in range(first, last, rows):
            high = min(low + rows, last)
            block = memoryview(_rows(whole, lead, low, high, sources)).cast("B")
            begin = max(0, start - low * row)
            yield block[begin : min(len(block), end - low * row)]
    finally:
        for source in sources.values():
            source.close()


def _leading_ones(whole: Assembly) -> int:
    """Return how many leading dimensions of size one can be left aside."""
    lead = 0
    while lead + 1 < len(whole.shape) and whole.shape[lead] == 1:
        lead += 1
    return lead


def _rows(
    whole: Assembly, lead: int, low: int, high: int, sources: dict[Path, ByteSource]
) -> bytes:
    """Return rows `[low, high)` of the whole, put together from every part that has some."""
    import numpy as np

    shape = whole.shape[lead:]
    kind = np.dtype((np.void, whole.itemsize))
    block = np.zeros((high - low, *shape[1:]), dtype=kind)
    for part in whole.parts:
        at, size = part.offset[lead:], part.shape[lead:]
        begin, stop = max(low, at[0]), min(high, at[0] + size[0])
        if begin >= stop or 0 in size:
            continue
        width = math.prod(size[1:]) * whole.itemsize
        place = whole.place(part)
        if place not in sources:
            if len(sources) >= 16:
                sources.popitem()[1].close()
            sources[place] = ByteSource(place)
        pieces = canonical_chunks(
            sources[place], part.tensor, (begin - at[0]) * width, (stop - at[0]) * width
        )
        data = b"".join(bytes(piece) for piece in pieces).ljust((stop - begin) * width, b"\0")
        piece: Any = np.frombuffer(data, dtype=kind).reshape(stop - begin, *size[1:])
        inner = tuple(slice(a, a + n) for a, n in zip(at[1:], size[1:], strict=True))
        block[(slice(begin - low, stop - low), *inner)] = piece
    return block.tobytes()


def assembled_digest(whole: Assembly, dtype: str) -> Digest:
    """Return the `tree` digest of the whole tensor's canonical bytes.

    Raises:
        PathError: A file cannot be read.
    """
    hasher = TreeHasher()
    for chunk in assembled_chunks(whole):
        hasher.update(chunk)
    return hasher.digest(dtype, whole.shape)

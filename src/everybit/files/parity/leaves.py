"""Reading leaves of many files by their place in the row of all leaves."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import xxhash

from everybit.core.tree import LEAF_BYTES
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from everybit.files.parity.layout import Layout

_MAX_OPEN: Final = 32


@dataclass(frozen=True, slots=True)
class Run:
    """Leaves one after the other in one file.

    Attributes:
        leaf: The first, in the row of all leaves.
        file: Index of their file.
        inner: Which leaf of the file the first is.
        data: Their bytes; fewer where the file has been cut. Valid until the next run.
    """

    leaf: int
    file: int
    inner: int
    data: memoryview


class LeafReader:
    """Reads leaves of a folder's files; for one thread, a context manager.

    Args:
        folder: Where the files lie.
        layout: Which leaf lies where.
    """

    def __init__(self, folder: Path, layout: Layout) -> None:
        self._folder = folder
        self._layout = layout
        self._open: OrderedDict[int, ByteSource] = OrderedDict()

    def __enter__(self) -> LeafReader:
        return self

    def __exit__(self, *_: object) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def source(self, index: int) -> ByteSource:
        """Return a file by its index, open; the least recently used one is closed for it.

        Raises:
            PathError: It cannot be opened.
        """
        if index in self._open:
            self._open.move_to_end(index)
            return self._open[index]
        source = ByteSource(self._folder / self._layout.files[index][0])
        self._open[index] = source
        if len(self._open) > _MAX_OPEN:
            self._open.popitem(last=False)[1].close()
        return source

    def read(self, leaf: int) -> bytes:
        """Return one leaf's bytes; fewer where its file has been cut.

        Raises:
            PathError: Its file cannot be read.
        """
        index, inner = self._layout.file_of(leaf)
        return self.source(index).read(inner * LEAF_BYTES, self._layout.leaf_bytes(leaf))

    def runs(self, first: int, last: int, buffer: memoryview) -> Iterator[Run]:
        """Yield leaves `first` to `last`, excluded, in order.

        Neighbours in a file are read at once, as many as the buffer holds.

        Raises:
            PathError: A file cannot be read.
        """
        leaf = first
        while leaf < last:
            index, inner = self._layout.file_of(leaf)
            in_file = self._layout.first_leaves[index + 1] - leaf
            count = min(in_file, last - leaf, len(buffer) // LEAF_BYTES)
            start = inner * LEAF_BYTES
            wanted = min(count * LEAF_BYTES, self._layout.files[index][1] - start)
            filled = self.source(index).read_into(start, buffer[:wanted])
            yield Run(leaf, index, inner, buffer[:filled])
            leaf += count


def leaf_holds(data: bytes | memoryview, digest: bytes) -> bool:
    """Return whether a leaf gives its sealed digest."""
    return xxhash.xxh3_128_digest(data) == digest

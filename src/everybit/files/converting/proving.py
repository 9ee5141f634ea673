"""The proof: what lies on the disk is read back and held against the source, bit for bit."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from everybit.core.errors import PathError
from everybit.core.tree import TreeHasher
from everybit.files.formats import safetensors
from everybit.files.geometry import STORED_ITEMSIZE
from everybit.files.parts import Assembly, assembled_chunks
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from everybit.core.digest import Digest
    from everybit.files.converting.storages import Entry


def prove(
    place: Path, root: Path, entries: list[Entry], progress: Callable[[int], None]
) -> dict[str, Digest]:
    """Read a new safetensors file from the disk and compare every entry with its source.

    Args:
        place: The file, written and synced.
        root: What the entries' parts are relative to.
        entries: What must be in it, and nothing else.
        progress: Is told the bytes compared, as they are.

    Returns:
        The `tree` digest of each entry's bytes, by name.

    Raises:
        PathError: A file cannot be read, or an entry is not what the source holds.
    """
    _forget(place)
    digests: dict[str, Digest] = {}
    with ByteSource(place) as source:
        structure = safetensors.read_structure(source)
        if structure.damages:
            raise _failed(place, structure.damages[0].message)
        written = {tensor.name: tensor for tensor in structure.tensors}
        if written.keys() != {entry.name for entry in entries}:
            raise _failed(place, "its entries are not those that were written")
        for entry in entries:
            stored = written[entry.name]
            if stored.num_bytes != entry.num_bytes:
                raise _failed(place, f"{entry.name} has {stored.num_bytes} bytes")
            digests[entry.name] = _compare(source, stored.start, root, entry, progress)
    return digests


def _compare(
    source: ByteSource, start: int, root: Path, entry: Entry, progress: Callable[[int], None]
) -> Digest:
    hasher = TreeHasher()
    at = 0
    for wanted in _source_chunks(root, entry):
        view = memoryview(wanted).cast("B")
        found = source.read(start + at, len(view))
        if found != view:
            raise _failed(
                source.path, f"{entry.name} differs from its source within bytes {at} to "
                f"{at + len(view)}",
            )  # fmt: skip
        hasher.update(found)
        at += len(view)
        progress(len(view))
    if at != entry.num_bytes:
        raise _failed(source.path, f"{entry.name} ended while its source was read")
    return hasher.digest("bytes", (at,))


def _source_chunks(root: Path, entry: Entry) -> Iterator[bytes | memoryview]:
    if not entry.num_bytes:
        return iter(())
    whole = Assembly(
        root=root, itemsize=STORED_ITEMSIZE[entry.dtype], shape=entry.shape, parts=entry.parts
    )
    return assembled_chunks(whole)


def _forget(place: Path) -> None:
    """Have the kernel drop what it keeps of a file in memory, so that the disk is read."""
    if not hasattr(os, "posix_fadvise"):
        return
    handle = os.open(place, os.O_RDONLY)
    try:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)


def _failed(place: Path, what: str) -> PathError:
    return PathError(
        f"what was read back is not what was written: {what}",
        where=str(place),
        todo="nothing was kept; the disk or the memory is failing: try another disk",
    )

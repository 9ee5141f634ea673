"""Stored tensors of model files, read through a few files that stay open."""

from __future__ import annotations

import zlib
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from everybit.core.errors import PathError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from everybit.diff.stored import StoredTensor
    from everybit.files import FileTensor
    from everybit.files.model import Model, ModelTensor
    from everybit.files.source import ByteSource
    from everybit.files.zips.archive import Member

_MAX_OPEN: Final = 64


class Sources:
    """Files open for reading, the longest unused closed first; a context manager.

    What was written to while it was open is told at the end: its values were never all compared.

    Args:
        progress: Told the bytes read.
    """

    def __init__(self, progress: Callable[[int], None] | None = None) -> None:
        self.progress = progress or (lambda _: None)
        self._open: dict[Path, ByteSource] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for source in self._open.values():
            source.close()
        self._open.clear()

    def at(self, path: Path) -> ByteSource:
        """Return the open file.

        Raises:
            PathError: It cannot be read, or was written to meanwhile.
        """
        from everybit.files.source import ByteSource

        source = self._open.pop(path, None)
        if source is None:
            if len(self._open) >= _MAX_OPEN:
                self._close(next(iter(self._open)))
            source = ByteSource(path)
        self._open[path] = source
        return source

    def check_unchanged(self) -> None:
        """Raise `PathError` if somebody wrote to an open file."""
        for path in list(self._open):
            self._check(path)

    def _close(self, path: Path) -> None:
        self._check(path)
        self._open.pop(path).close()

    def _check(self, path: Path) -> None:
        if self._open[path].changed():
            raise PathError("changed while it was read", where=str(path), todo="try again")


def stored_tensor(
    sources: Sources,
    path: Path,
    relative: str,
    tensor: FileTensor,
    *,
    name: str = "",
    member: Member | None = None,
) -> StoredTensor:
    """Return a file's tensor as a diff sees it.

    Args:
        sources: Opens the file.
        path: The file.
        relative: As the user knows it.
        tensor: A tensor of it.
        name: Its name, where that is not the file's own.
        member: The archive member that holds it, where that has a checksum.
    """
    from everybit.diff.stored import StoredTensor
    from everybit.files.elements import expands_too_far

    unreadable, held = tensor.unreadable, None
    if expands_too_far(tensor):
        unreadable = unreadable or "it repeats its storage too often to be read out"
    size = sources.at(path).size
    if tensor.plain:
        left = max(0, size - tensor.start)
        held = left if left < tensor.num_bytes else None
    elif any(end > size for _, end in tensor.byte_ranges):
        unreadable = unreadable or "the file ends before it"
    return StoredTensor(
        path=relative,
        name=name or tensor.name,
        dtype=tensor.dtype,
        shape=tensor.shape,
        num_bytes=tensor.num_bytes,
        unreadable=unreadable,
        storage=_storage(relative, tensor),
        read=partial(_read, sources, path, tensor),
        fill=partial(_fill, sources, path, tensor.start) if tensor.plain else None,
        offset=tensor.start if tensor.plain and not unreadable else None,
        num_held=held,
        vouch=partial(_vouch, sources, path, member) if member is not None else None,
    )


def stored_model(sources: Sources, model: Model, relative: str) -> list[StoredTensor]:
    """Return the tensors of a model of several files as a diff sees them."""
    return [_model_tensor(sources, model, each, relative) for each in model.tensors]


def _model_tensor(
    sources: Sources, model: Model, tensor: ModelTensor, relative: str
) -> StoredTensor:
    from everybit.diff.stored import StoredTensor

    if len(tensor.parts) == 1 and tensor.parts[0].shape == tensor.shape:
        part = tensor.parts[0]
        path = model.path / part.path if part.path else model.path
        label = f"{relative}/{part.path}" if relative and part.path else part.path or relative
        return stored_tensor(sources, path, label, part.tensor, name=tensor.name)
    first = tensor.parts[0].path if tensor.parts else ""
    return StoredTensor(
        path=f"{relative}/{first}" if relative and first else first or relative,
        name=tensor.name,
        dtype=tensor.dtype,
        shape=tensor.shape,
        num_bytes=tensor.num_bytes,
        unreadable=tensor.unreadable,
        read=partial(_read_parts, sources, model, tensor),
    )


def _read(sources: Sources, path: Path, tensor: FileTensor, start: int, end: int) -> bytes:
    from everybit.files.elements import canonical_chunks

    sources.progress(end - start)
    chunks = canonical_chunks(sources.at(path), tensor, start, end)
    return b"".join(bytes(chunk) for chunk in chunks)


def _vouch(sources: Sources, path: Path, member: Member) -> bool | None:
    crc = 0
    for chunk in sources.at(path).chunks(member.start, member.end):
        crc = zlib.crc32(chunk, crc)
    return crc in (member.crc, member.other_crc)


def _fill(sources: Sources, path: Path, offset: int, start: int, buffer: memoryview) -> int:
    sources.progress(len(buffer))
    return sources.at(path).read_into(offset + start, buffer)


def _read_parts(sources: Sources, model: Model, tensor: ModelTensor, start: int, end: int) -> bytes:
    from everybit.files.model import read_model_tensor

    sources.progress(end - start)
    return read_model_tensor(model, tensor, start, end)


def _storage(relative: str, tensor: FileTensor) -> tuple[object, ...]:
    if not tensor.byte_ranges:
        return ()
    return (relative, tensor.member, tensor.byte_ranges, tensor.dtype, tensor.shape, tensor.stride)

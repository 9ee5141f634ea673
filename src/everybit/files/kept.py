"""Structures kept while one question about several files is answered, so that each is read once."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.files.structure import Structure

#: A tensor's description takes about a kilobyte.
_MAX_TENSORS: Final = 60_000


class _Kept:
    """Structures by the file they were read from; the oldest are let go of beyond a bound."""

    def __init__(self) -> None:
        self._structures: OrderedDict[tuple[object, ...], Structure] = OrderedDict()
        self._num_tensors = 0

    def get(self, source: ByteSource) -> Structure | None:
        """Return what was read of this very file, unchanged since; None where nothing was."""
        return self._structures.get(_key(source))

    def put(self, source: ByteSource, structure: Structure) -> None:
        """Keep what was read, as far as there is room for it."""
        self._structures[_key(source)] = structure
        self._num_tensors += _weight(structure)
        while self._num_tensors > _MAX_TENSORS:
            _, oldest = self._structures.popitem(last=False)
            self._num_tensors -= _weight(oldest)


_kept: ContextVar[_Kept | None] = ContextVar("everybit_kept_structures", default=None)


@contextlib.contextmanager
def keep_structures() -> Iterator[None]:
    """Read no file's structure twice inside the block, unless the file changes."""
    token = _kept.set(_Kept())
    try:
        yield
    finally:
        _kept.reset(token)


def kept_structure(source: ByteSource) -> Structure | None:
    """Return the structure kept of an open file; None where none is."""
    kept = _kept.get()
    return kept.get(source) if kept is not None and _is_whole_file(source) else None


def keep_structure(source: ByteSource, structure: Structure) -> None:
    """Keep a structure while the block of `keep_structures` lasts."""
    kept = _kept.get()
    if kept is not None and _is_whole_file(source):
        kept.put(source, structure)


def _key(source: ByteSource) -> tuple[object, ...]:
    # The path counts: a file of distributed checkpoints is named by what lies beside it.
    return (source.path, *source.identity)


def _is_whole_file(source: ByteSource) -> bool:
    # Windows into a file and files read with other bytes in them are kinds of their own.
    return type(source) is ByteSource


def _weight(structure: Structure) -> int:
    return len(structure.tensors) + len(structure.members) // 4 + len(structure.values) // 8 + 1

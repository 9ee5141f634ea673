"""What a persistent id gives in each of torch's formats, and whether fetching it succeeds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol

from everybit.files.geometry import STORED_ITEMSIZE
from everybit.files.pickles.nodes import Global, TupleNode
from everybit.files.weights_only.allowed import storage_dtype
from everybit.files.weights_only.names import renamed
from everybit.files.weights_only.proof import UnprovedError
from everybit.files.weights_only.values import Known, StorageValue

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.files.weights_only.values import Value

_KEY: Final = re.compile(r"[A-Za-z0-9_.-]{1,200}")
_MAX_COUNT: Final = 1 << 48
_UNTYPED: Final = "torch.storage.UntypedStorage"


class Storages(Protocol):
    """Where a pickle's storages come from."""

    def fetch(self, key: Value) -> StorageValue:
        """Return the storage of a persistent id; raises `UnprovedError`."""


class ZipStorages:
    """The storages of a torch archive: records under `data/`.

    Args:
        sizes: Length in bytes of the record of a storage's key; None where there is none.
    """

    def __init__(self, sizes: Callable[[str], int | None]) -> None:
        self._sizes = sizes
        self._fetched: dict[str, StorageValue] = {}

    def fetch(self, key: Value) -> StorageValue:
        """Return the storage of `("storage", type, key, location, count)`."""
        kind, name, count = _parts(key, 5)
        dtype = _dtype(kind)
        num_bytes = count * STORED_ITEMSIZE[dtype]
        size = self._sizes(name)
        if size is None:
            raise UnprovedError(f"asks for storage {name[:80]}, which has no record", proved=True)
        known = self._fetched.get(name)
        if known is None and num_bytes != size:
            what = f"says that storage {name[:80]} has {num_bytes} bytes where its record has"
            raise UnprovedError(f"{what} {size}", proved=True)
        if known is not None:
            if (known.dtype, known.count) != (dtype, count):
                raise UnprovedError(f"describes storage {name[:80]} twice and differently")
            return known
        value = StorageValue(dtype, num_bytes, count, kind == _UNTYPED)
        self._fetched[name] = value
        return value


class LegacyStorages:
    """The storages of a legacy file, which follow its pickles; they are checked afterwards.

    Attributes:
        declared: Every storage that the object's pickle refers to, by key.
    """

    def __init__(self) -> None:
        self.declared: dict[str, StorageValue] = {}
        self._views: dict[str, tuple[str, StorageValue]] = {}

    def fetch(self, key: Value) -> StorageValue:
        """Return the storage of `("storage", type, key, location, count, view)`."""
        kind, name, count = _parts(key, 6)
        if kind == _UNTYPED:
            what = "asks for an untyped storage in a legacy file"
            raise UnprovedError(what, proved=True, usual=True)
        dtype = _dtype(kind)
        known = self.declared.get(name)
        if known is not None and (known.dtype, known.count) != (dtype, count):
            raise UnprovedError(f"describes storage {name[:80]} twice and differently")
        if name in self._views:
            raise UnprovedError(f"uses the key {name[:80]} for a storage and for a part of one")
        if known is None:
            known = StorageValue(dtype, count * STORED_ITEMSIZE[dtype], count)
            self.declared[name] = known
        view = key.items[5]
        return known if view is None else self._part(name, known, view)

    def _part(self, name: str, whole: StorageValue, view: Value) -> StorageValue:
        parts = view.items if type(view) is TupleNode else []
        if len(parts) != 3 or type(parts[0]) is not str or not all(map(_is_count, parts[1:])):
            raise UnprovedError("describes a part of a storage oddly")
        key, first, count = parts
        if first + count > whole.count:
            raise UnprovedError("describes a part that is not inside its storage")
        size = STORED_ITEMSIZE[whole.dtype]
        made = StorageValue(whole.dtype, count * size, count)
        owner, known = self._views.setdefault(key, (name, made))
        if owner != name or known.count != count or key in self.declared:
            raise UnprovedError("describes a part of a storage twice and differently")
        return known


def _is_count(value: Value) -> bool:
    return type(value) is int and 0 <= value <= _MAX_COUNT


def _parts(key: Value, length: int) -> tuple[str, str, int]:
    """Return the type's qualified name, key and count of a persistent id."""
    items = key.items if type(key) is TupleNode else None
    if items is None:
        raise UnprovedError("asks for a storage with what is no tuple", proved=True)
    if not items or items[0] != "storage" or type(items[0]) is not str:
        raise UnprovedError("asks for something from outside that is no storage", proved=True)
    if len(items) != length:
        raise UnprovedError("asks for a storage with another number of facts", proved=True)
    kind, name, location, count = items[1:5]
    if type(kind) is Known:
        told = kind.name
    elif type(kind) is Global:  # as `quick` has it, which asks for its name before
        told = ".".join(renamed(kind.module, kind.name))
    else:
        raise UnprovedError("asks for a storage of what is no storage type")
    if type(name) is not str or not _KEY.fullmatch(name):
        raise UnprovedError("asks for a storage under an odd key")
    if type(location) is not str or not location.isascii():
        raise UnprovedError("gives a storage an odd device")
    if not _is_count(count):
        raise UnprovedError("gives a storage an odd number of elements")
    return told, name, count


def _dtype(kind: str) -> str:
    dtype = storage_dtype(kind)
    if dtype is None:
        raise UnprovedError(f"asks for a storage of type {kind}")
    return dtype

"""The storages of a checkpoint, the tensors that lie in them, and how each is cut into entries.

Every byte of every storage goes into the new file once. A tensor that fills its part of a storage
is an entry under its own name, with its own values; what no such tensor covers is an entry of raw
bytes. The sidecar says which entries make up which storage.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from everybit.files.geometry import STORED_ITEMSIZE, normal_stride, row_major
from everybit.files.parts import Part
from everybit.files.tensor import FileTensor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.files.converting.naming import Names
    from everybit.files.formats.placing import Held

_SIGNED: Final = frozenset(
    {"float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A tensor as it lies in a storage.

    Attributes:
        name: Its name.
        dtype: Canonical dtype name.
        shape: Shape.
        stride: Strides in elements, as saved.
        offset: Of its first element in the storage, in elements.
        conjugate: The storage holds the conjugates of its values.
        negative: The storage holds its values negated.
        requires_grad: It asks for gradients.
        placed: Where its elements lie in the file; None where they lie in several parts.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    conjugate: bool = False
    negative: bool = False
    requires_grad: bool = False
    placed: FileTensor | None = None

    @property
    def itemsize(self) -> int:
        """Bytes an element."""
        return STORED_ITEMSIZE[self.dtype]

    @property
    def num_bytes(self) -> int:
        """Bytes of its elements."""
        count = self.itemsize
        for size in self.shape:
            count *= size
        return count

    @property
    def contiguous(self) -> bool:
        """Whether its elements lie in the order of its indices."""
        return normal_stride(self.shape, self.stride) == row_major(self.shape)

    @property
    def dense(self) -> bool:
        """Whether its elements fill a range of the storage, each place once."""
        steps = sorted((step, n) for n, step in zip(self.shape, self.stride, strict=True) if n > 1)
        expected = 1
        for step, size in steps:
            if step != expected:
                return False
            expected *= size
        return True

    @property
    def can_be_resolved(self) -> bool:
        """Whether its flags change single bits: negating an integer changes more than its sign."""
        return not self.negative or self.dtype in _SIGNED

    @property
    def as_stored(self) -> bool:
        """Whether its values, written one after the other, are the storage's bytes."""
        return self.contiguous and not (self.conjugate or self.negative)


@dataclass(slots=True, kw_only=True)
class Storage:
    """A storage: its bytes, and the tensors in it.

    Attributes:
        index: Its place among all.
        name: The path under which it was first met.
        dtype: Canonical name of its elements' dtype.
        num_bytes: Its length.
        device: The device it was on, as saved ("cuda:0").
        path: The file that holds it, relative to what is converted.
        held: Where it lies there; None where it has no bytes, or lies in several parts.
        parts: Its parts, for one whose tensor is put together from several files.
        big_endian: Elements are stored big-endian.
        views: The tensors in it.
    """

    index: int
    name: str
    dtype: str
    num_bytes: int
    device: str = "cpu"
    path: str = ""
    held: Held | None = None
    parts: tuple[Part, ...] = ()
    big_endian: bool = False
    views: list[View] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of the new safetensors files.

    Attributes:
        name: Its name.
        dtype: Canonical dtype name.
        shape: Shape.
        parts: Where its canonical bytes come from.
        storage: The storage that it is a piece of.
        at: Where it begins there, in bytes.
        view: The tensor whose values it holds; None where it holds bytes as stored.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    parts: tuple[Part, ...]
    storage: int
    at: int
    view: View | None = None

    @property
    def num_bytes(self) -> int:
        """Length of its bytes."""
        count = STORED_ITEMSIZE[self.dtype]
        for size in self.shape:
            count *= size
        return count


def cut_into_entries(storage: Storage, names: Names) -> Iterator[Entry]:
    """Yield the entries that together are a storage, in its order; no byte is in two of them.

    Args:
        storage: The storage, with all its tensors.
        names: Gives names to the parts that no tensor fills.
    """
    for view in storage.views:
        if 0 in view.shape:
            yield Entry(
                name=view.name, dtype=view.dtype, shape=view.shape, parts=(),
                storage=storage.index, at=0, view=view,
            )  # fmt: skip
    if storage.device == "meta":
        return
    reach = 0
    chosen = _choose(storage.views)
    label = storage.views[0].name if storage.views else storage.name
    for view in chosen:
        at = view.offset * view.itemsize
        if at > reach:
            yield _raw(storage, reach, at, names.unique(f"{label}#storage"))
        yield _filled(storage, view, at)
        reach = at + view.num_bytes
    if reach < storage.num_bytes:
        label = label if storage.views else storage.name
        suffix = "#storage" if storage.views else ""
        yield _raw(storage, reach, storage.num_bytes, names.unique(label + suffix))


def _choose(views: list[View]) -> list[View]:
    """Return tensors that fill parts of a storage and do not overlap, the largest first chosen."""
    able = [view for view in views if view.num_bytes and view.dense and view.can_be_resolved]
    able.sort(key=lambda view: (-view.num_bytes, not view.as_stored))
    starts: list[int] = []
    chosen: list[View] = []
    for view in able:
        begin = view.offset * view.itemsize
        place = bisect.bisect_right(starts, begin)
        before = chosen[place - 1] if place else None
        if before is not None and before.offset * before.itemsize + before.num_bytes > begin:
            continue
        if place < len(starts) and starts[place] < begin + view.num_bytes:
            continue
        starts.insert(place, begin)
        chosen.insert(place, view)
    return chosen


def _filled(storage: Storage, view: View, at: int) -> Entry:
    parts = storage.parts
    if view.placed is not None:
        offset = (0,) * len(view.shape)
        parts = (Part(path=storage.path, tensor=view.placed, offset=offset, shape=view.shape),)
    return Entry(
        name=view.name,
        dtype=view.dtype,
        shape=view.shape,
        parts=parts,
        storage=storage.index,
        at=at,
        view=view,
    )


def _raw(storage: Storage, start: int, end: int, name: str) -> Entry:
    assert storage.held is not None
    size = STORED_ITEMSIZE[storage.dtype]
    dtype = "uint8" if start % size or end % size else storage.dtype
    shape = ((end - start) // STORED_ITEMSIZE[dtype],)
    begin = storage.held.start + start
    stored = FileTensor(
        name=name,
        dtype=dtype,
        shape=shape,
        byte_ranges=((begin, begin + end - start),),
        stride=(1,),
        start=begin,
        member=storage.held.member,
        big_endian=storage.big_endian,
    )
    part = Part(path=storage.path, tensor=stored, offset=(0,), shape=shape)
    return Entry(
        name=name, dtype=dtype, shape=shape, parts=(part,), storage=storage.index, at=start
    )

"""Storages and tensors as the tree mentions them: each placed, checked, and kept once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from everybit.core.errors import PathError
from everybit.files.converting.naming import Names
from everybit.files.converting.storages import Storage, View
from everybit.files.damage import Damage
from everybit.files.formats.placing import Held, place_tensor
from everybit.files.geometry import row_major
from everybit.files.pickles.torch_values import OddError, TensorSpec, describe_storage
from everybit.files.pickles.torch_values import Storage as Described

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.files.converting.origins import Origin
    from everybit.files.parts import Part
    from everybit.files.pickles.nodes import Persistent
    from everybit.files.tensor import FileTensor


@dataclass(slots=True, kw_only=True)
class Collection:
    """All storages and tensors of what is converted, from one or more pickles.

    Attributes:
        root: What is converted, for messages.
        storages: The storages, in the order met.
        views: The tensors, by name.
        names: The names given.
    """

    root: Path
    storages: list[Storage] = field(default_factory=list)
    views: dict[str, View] = field(default_factory=dict)
    names: Names = field(default_factory=Names)
    _known: dict[tuple[int, str], Storage] = field(default_factory=dict)

    def refuse(self, what: str) -> PathError:
        """Return the error for something that this release cannot carry over."""
        todo = "load it where it was made, and save plain tensors and values"
        return PathError(what, where=str(self.root), todo=todo)

    def storage_of(self, origin: Origin, described: Described, path: str) -> Storage:
        """Return the storage of a pickle, the same one for the same key."""
        key = (id(origin), described.key)
        known = self._known.get(key)
        if known is None:
            held = origin.held.get(described.key)
            if held is not None and held.size != described.num_bytes:
                problem = f"{held.label} has {held.size} bytes, its storage {described.num_bytes}"
                raise Damage(rule="FIL107", message=problem).error(self.root / origin.path)
            if held is not None and held.compressed:
                problem = f"{held.label} is compressed, as torch never writes it"
                raise PathError(
                    problem, where=str(self.root / origin.path),
                    todo="unpack the archive and pack it again without compression: zip -0",
                )  # fmt: skip
            known = Storage(
                index=len(self.storages),
                name=path,
                dtype=described.dtype,
                num_bytes=described.num_bytes,
                device=described.location or "cpu",
                path=origin.path,
                held=held,
                big_endian=origin.big_endian,
            )
            if held is None and described.num_bytes and known.device != "meta":
                problem = f"storage {described.key} is not in the file"
                raise Damage(rule="FIL107", message=problem).error(self.root / origin.path)
            self.storages.append(known)
            self._known[key] = known
        return known

    def bare_storage(self, origin: Origin, node: Persistent, path: str) -> Storage:
        """Return the storage that a persistent id stands for."""
        try:
            described = describe_storage(node)
        except OddError as odd:
            raise self.refuse(f"the object at {path or 'its root'}: {odd}") from None
        return self.storage_of(origin, described, path)

    def tensor(
        self, origin: Origin, spec: TensorSpec, path: str, *, requires_grad: bool = False
    ) -> View:
        """Return the tensor that a pickle describes, placed in its storage."""
        described, offset = spec.storage, spec.offset
        if described is not None and described.key in origin.views:
            key, before = origin.views[described.key]
            whole = origin.held[key]
            described = replace(described, key=key, num_bytes=whole.size)
            offset += before
        name = self.names.unique(path)
        spec = replace(spec, name=name, storage=described, offset=offset)
        held = origin.held.get(described.key) if described is not None else None
        placed = place_tensor(spec, held, origin.record, big_endian=origin.big_endian)
        if isinstance(placed, Damage):
            raise placed.error(self.root / origin.path)
        if isinstance(placed, str):
            raise self.refuse(f"the tensor at {path or 'its root'} cannot be read: {placed}")
        storage = (
            self._own(origin, placed, path)
            if described is None
            else self.storage_of(origin, described, path)
        )
        view = View(
            name=name,
            dtype=spec.dtype,
            shape=spec.shape,
            stride=spec.stride,
            offset=offset,
            conjugate=spec.conjugate,
            negative=spec.negative,
            requires_grad=requires_grad,
            placed=placed,
        )
        storage.views.append(view)
        self.views[name] = view
        return view

    def joined(
        self, name: str, dtype: str, shape: tuple[int, ...], parts: tuple[Part, ...]
    ) -> View:
        """Return a tensor that is put together from parts, in a storage of its own."""
        view = View(
            name=self.names.unique(name),
            dtype=dtype,
            shape=shape,
            stride=row_major(shape),
            offset=0,
        )
        storage = Storage(
            index=len(self.storages),
            name=name,
            dtype=dtype,
            num_bytes=view.num_bytes,
            parts=parts,
            views=[view],
        )
        self.storages.append(storage)
        self.views[view.name] = view
        return view

    def blob(self, origin: Origin, data: bytes, path: str) -> View:
        """Return long bytes of a pickle as a tensor."""
        spec = TensorSpec(
            name="", dtype="uint8", shape=(len(data),), stride=(1,), inline=(data, -1, -1)
        )
        return self.tensor(origin, spec, path)

    def _own(self, origin: Origin, placed: FileTensor, path: str) -> Storage:
        """Return a storage for an array that stands inside its pickle."""
        record: Held = origin.record
        storage = Storage(
            index=len(self.storages),
            name=path,
            dtype=placed.dtype,
            num_bytes=placed.num_bytes,
            path=origin.path,
            held=record,
        )
        self.storages.append(storage)
        return storage

"""Storages and tensors out of safetensors files, as a sidecar says that they belong together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from everybit.core.digest import Digest
from everybit.core.errors import DamagedError
from everybit.core.tree import TreeHasher
from everybit.files.converting.storages import View
from everybit.files.geometry import STORED_ITEMSIZE, extent, row_major, shape_problem
from everybit.files.source import ByteSource

if TYPE_CHECKING:
    from pathlib import Path

    from everybit.files.converting.reading import Sidecar
    from everybit.files.tensor import FileTensor

_CHUNK_BYTES: Final = 1 << 20
#: Integers of each element size, to move elements without touching a bit.
_INTEGERS: Final = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_COMPLEX: Final = frozenset({"complex32", "complex64", "complex128"})
_QUANTIZED: Final = frozenset({"qint8", "quint8", "qint32", "quint4x2", "quint2x4"})


class Tensors:
    """The storages and tensors of a sidecar; each is made when it is asked for, once.

    Args:
        sidecar: The sidecar.
    """

    def __init__(self, sidecar: Sidecar) -> None:
        self.sidecar = sidecar
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._views: dict[str, tuple[View, int]] = {}
        self._tensors: dict[str, torch.Tensor] = {}
        self._used: set[str] = set()

    # -- tensors ---------------------------------------------------------------------------------

    def tensor(self, name: str) -> torch.Tensor:
        """Return a tensor by its name, the same object each time."""
        known = self._tensors.get(name)
        if known is None:
            view, index = self.view(name)
            if view.dtype in _QUANTIZED:
                raise self.sidecar.wrong(f"tensor {name[:80]} is quantised and says not how")
            known = self._tensors[name] = self._make(view, index)
        return known

    def quantized(self, name: str, like: Any) -> torch.Tensor:
        """Return a quantised tensor; `like` makes an empty one of a shape and dtype."""
        view, index = self.view(name)
        dtype = _dtype(view.dtype)
        made: torch.Tensor = like(view.shape, dtype)
        made.set_(self.storage(index), view.offset, view.shape, view.stride)
        return made.requires_grad_() if view.requires_grad else made

    def array(self, name: str) -> Any:
        """Return a NumPy array by its name."""
        view, index = self.view(name)
        if not view.dense or view.num_bytes != self._size_of(index):
            raise self.sidecar.wrong(f"array {name[:80]} does not fill its storage")
        return self.tensor(name).numpy().copy(order="K")

    def view(self, name: str) -> tuple[View, int]:
        """Return what the sidecar says of a tensor, checked, and the number of its storage."""
        known = self._views.get(name)
        if known is None:
            told = self.sidecar.tensors.get(name)
            if not isinstance(told, dict):
                raise self.sidecar.wrong(f"tensor {name[:80]} is not in its table")
            known = self._views[name] = self._check(name, told)
        return known

    def _check(self, name: str, told: dict[str, Any]) -> tuple[View, int]:
        dtype, index = told.get("dtype"), told.get("storage")
        shape = _sizes(told.get("shape"))
        stride = _sizes(told["stride"]) if "stride" in told else shape and row_major(shape)
        offset = told.get("offset", 0)
        if shape == ():
            stride = ()
        if (
            not isinstance(dtype, str) or dtype not in STORED_ITEMSIZE or shape is None
            or stride is None or len(stride) != len(shape) or not _is_size(offset)
            or type(index) is not int or shape_problem(shape)
        ):  # fmt: skip
            raise self.sidecar.wrong(f"tensor {name[:80]} cannot be as it is described")
        view = View(
            name=name,
            dtype=dtype,
            shape=shape,
            stride=stride,
            offset=offset,
            conjugate=told.get("conjugate") is True,
            negative=told.get("negative") is True,
            requires_grad=told.get("requires_grad") is True,
        )
        needed = 0 if 0 in shape else (offset + extent(shape, stride)) * view.itemsize
        if needed > self._size_of(index) or (view.conjugate and dtype not in _COMPLEX):
            raise self.sidecar.wrong(f"tensor {name[:80]} reaches beyond its storage")
        return view, index

    def _make(self, view: View, index: int) -> torch.Tensor:
        dtype = _dtype(view.dtype)
        storage = self.storage(index)
        made = torch.empty(0, dtype=dtype, device=storage.device)
        made.set_(storage, view.offset, view.shape, view.stride)
        if view.conjugate or view.negative:
            flags = {"conj": view.conjugate, "neg": view.negative}
            set_flags: Any = torch._utils.set_tensor_metadata
            set_flags(made, {name: True for name, is_set in flags.items() if is_set})
        return made.requires_grad_() if view.requires_grad else made

    # -- storages --------------------------------------------------------------------------------

    def storage(self, index: int) -> torch.UntypedStorage:
        """Return a storage by its number, the same one each time, its bytes read and tested."""
        num_bytes = self._size_of(index)
        known = self._storages.get(index)
        if known is None:
            told = self.sidecar.storages[index]
            if told.get("device") == "meta":
                known = _new_storage(num_bytes, device="meta")
            else:
                known = self._fill(index, num_bytes, told.get("pieces"))
            self._storages[index] = known
        return known

    def dtype_of(self, index: int) -> torch.dtype:
        """Return the dtype of a storage's elements."""
        self._size_of(index)
        name = self.sidecar.storages[index].get("dtype")
        if not isinstance(name, str) or name not in STORED_ITEMSIZE:
            raise self.sidecar.wrong(f"storage {index} has no dtype")
        return _dtype(name)

    def _size_of(self, index: int) -> int:
        storages = self.sidecar.storages
        told = storages[index] if type(index) is int and 0 <= index < len(storages) else None
        size: Any = told.get("num_bytes") if isinstance(told, dict) else None
        if not _is_size(size):
            raise self.sidecar.wrong(f"storage {str(index)[:20]} is not in its table")
        return int(size)

    def _fill(self, index: int, num_bytes: int, pieces: Any) -> torch.UntypedStorage:
        """Return a storage put together from its pieces, which must fill it."""
        if not isinstance(pieces, list):
            raise self.sidecar.wrong(f"storage {index} has no pieces")
        placed: list[tuple[int, Path, FileTensor, dict[str, Any]]] = []
        reach = 0
        for piece in pieces:
            name = piece.get("entry") if isinstance(piece, dict) else None
            entry = self.sidecar.entries.get(name) if isinstance(name, str) else None
            if entry is None or name in self._used:
                problem = "is used twice" if entry is not None else "is not in the files"
                raise self.sidecar.wrong(f"entry {str(name)[:80]} of storage {index} {problem}")
            self._used.add(str(name))
            if entry[1].num_bytes:
                if piece.get("at", 0) != reach:
                    raise self.sidecar.wrong(f"the pieces of storage {index} leave a hole")
                placed.append((reach, *entry, piece))
                reach += entry[1].num_bytes
        if reach != num_bytes:
            raise self.sidecar.wrong(f"storage {index} has {num_bytes} bytes, its pieces {reach}")
        storage = _new_storage(num_bytes)
        if num_bytes:
            flat: Any = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
            room = memoryview(flat)
            for at, path, stored, piece in placed:
                self._read(
                    storage, room[at : at + stored.num_bytes], at, index, path, stored, piece
                )
        return storage

    def _read(
        self,
        storage: torch.UntypedStorage,
        room: memoryview,
        at: int,
        index: int,
        path: Path,
        stored: FileTensor,
        piece: dict[str, Any],
    ) -> None:
        """Read one piece into its place, and hold it against its digest."""
        values_of = piece.get("values_of")
        target = room if values_of is None else memoryview(bytearray(len(room)))
        hasher = TreeHasher()
        with ByteSource(path) as source:
            for begin in range(0, len(target), _CHUNK_BYTES):
                part = target[begin : begin + _CHUNK_BYTES]
                if source.read_into(stored.start + begin, part) != len(part):
                    raise self.sidecar.wrong(f"{path.name} ended while it was read")
                hasher.update(part)
        found = hasher.digest("bytes", (len(target),))
        try:
            wanted = Digest.parse(str(piece.get("digest")))
        except ValueError:
            raise self.sidecar.wrong(f"entry {stored.name[:80]} has no digest") from None
        if found != wanted:
            raise DamagedError(
                f"entry {stored.name} is not what was converted: its bytes have changed",
                rule="FIL102",
                where=str(path),
                todo="fetch it again, or convert the checkpoint again",
            )
        if values_of is not None:
            self._lay_out(storage, target, at, index, values_of)

    def _lay_out(
        self, storage: torch.UntypedStorage, values: memoryview, at: int, index: int, name: Any
    ) -> None:
        """Put a tensor's values where its strides say, as its flags say."""
        view, owner = self.view(name if isinstance(name, str) else "")
        size = view.itemsize
        if owner != index or not view.dense or view.offset * size != at:
            raise self.sidecar.wrong(f"tensor {name[:80]} does not fill its piece of a storage")
        if view.num_bytes != len(values):
            raise self.sidecar.wrong(f"tensor {name[:80]} has another size than its entry")
        raw = torch.frombuffer(values, dtype=torch.uint8)
        part = size // (2 if view.dtype in _COMPLEX else 1)
        signs = raw.view(-1, part)[:, part - 1]
        if view.negative:
            signs ^= 0x80
        if view.conjugate:
            signs[1::2] ^= 0x80
        wide = 2 if size == 16 else 1
        kind = _INTEGERS[size // wide]
        shape = (*view.shape, wide)
        stride = (*(step * wide for step in view.stride), 1)
        place = torch.empty(0, dtype=kind).set_(storage, view.offset * wide, shape, stride)
        place.copy_(raw.view(kind).view(shape))


def _new_storage(num_bytes: int, *, device: str = "cpu") -> torch.UntypedStorage:
    make: Any = torch.UntypedStorage
    made: torch.UntypedStorage = make(num_bytes, device=device)
    return made


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise DamagedError(
            f"this torch has no dtype {name}", rule="FIL107", todo="use a newer release of torch"
        )
    return found


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def _sizes(values: Any) -> tuple[int, ...] | None:
    if not isinstance(values, list) or len(values) > 64 or not all(map(_is_size, values)):
        return None
    return tuple(values)

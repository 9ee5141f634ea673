"""A writer of torch 0.1's tar format, from the layout that `torch.load` still reads."""

from __future__ import annotations

import io
import pickle
import struct
import sys
import tarfile
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from pathlib import Path

_TENSOR_TYPES = {
    torch.float32: torch.FloatTensor,
    torch.float64: torch.DoubleTensor,
    torch.int64: torch.LongTensor,
    torch.uint8: torch.ByteTensor,
    torch.float16: torch.HalfTensor,
}
_STORAGE_TYPES = {
    torch.float32: torch.FloatStorage,
    torch.float64: torch.DoubleStorage,
    torch.int64: torch.LongStorage,
    torch.uint8: torch.ByteStorage,
    torch.float16: torch.HalfStorage,
}


def save_tar(value: Any, path: Path, *, views: list[tuple[int, int, int, int]] = ()) -> Path:
    """Write `value` as torch 0.1 did.

    Args:
        value: Any nest with tensors in it.
        path: The file.
        views: Entries of the list of storage views, `(target, root, offset, count)`.
    """
    tensors: dict[int, torch.Tensor] = {}
    storages: dict[int, torch.Tensor] = {}

    class Pickler(pickle.Pickler):
        def persistent_id(self, obj: Any) -> str | None:
            if not isinstance(obj, torch.Tensor):
                return None
            tensors[id(obj)] = obj
            return str(id(obj))

    body = io.BytesIO()
    Pickler(body, protocol=2).dump(value)
    keep = list(tensors.values())

    records = io.BytesIO()
    pickle.dump(len(keep), records, protocol=2)
    for tensor in keep:
        key = tensor.untyped_storage().data_ptr()
        storages.setdefault(key, tensor)
        entry = (id(tensor), key, _TENSOR_TYPES[tensor.dtype])
        pickle.dump(entry, records, protocol=2)
        dims = tensor.dim()
        records.write(struct.pack("<ii", dims, 0))
        records.write(struct.pack(f"<{dims}q", *tensor.shape))
        records.write(struct.pack(f"<{dims}q", *tensor.stride()))
        records.write(struct.pack("<q", tensor.storage_offset()))

    raw = io.BytesIO()
    pickle.dump(len(storages), raw, protocol=2)
    for key, tensor in storages.items():
        pickle.dump((key, "cpu", _STORAGE_TYPES[tensor.dtype]), raw, protocol=2)
        data = bytes(tensor.untyped_storage())
        raw.write(struct.pack("<q", len(data) // tensor.element_size()))
        raw.write(data)
    pickle.dump(list(views), raw, protocol=2)

    info = {"protocol_version": 1000, "little_endian": sys.byteorder == "little"}
    with tarfile.open(path, "w:", format=tarfile.PAX_FORMAT) as tar:
        for name, data in (
            ("sys_info", pickle.dumps(info, protocol=2)),
            ("pickle", body.getvalue()),
            ("tensors", records.getvalue()),
            ("storages", raw.getvalue()),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path

"""Arrays of an `.npz` file that may come from anybody: no pickle, no size beyond the file's own."""

from __future__ import annotations

import os
import zipfile
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import xxhash

from everybit.ledger.folder import create_private, open_regular

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

_MAX_MEMBERS: Final = 100_000
#: bytes, unsigned words
_DTYPES: Final = ("|u1", "<u4")


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Write arrays into a new file, for its owner only; return what `read_arrays` expects.

    Raises:
        OSError: It cannot be written, or exists.
    """
    import numpy as np

    with os.fdopen(create_private(path), "w+b") as file:
        np.savez(file, allow_pickle=False, **arrays)
        file.flush()
        os.fsync(file.fileno())
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        return {"bytes": size, "xxh3_128": _digest(file)}


def read_arrays(path: Path, expected: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Return the one-dimensional arrays of a file of stored (not compressed) members.

    Args:
        path: The file.
        expected: Its `bytes` and `xxh3_128`, as recorded when it was written.

    Raises:
        OSError: It cannot be read.
        ValueError: It is another file than the recorded one, or holds anything else.
    """
    with os.fdopen(open_regular(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size != expected["bytes"]:
            raise ValueError(f"{path.name} has {size} bytes, recorded are {expected['bytes']}")
        if _digest(file) != expected["xxh3_128"]:
            raise ValueError(f"the bytes of {path.name} are not those that were written")
        file.seek(0)
        try:
            with zipfile.ZipFile(file) as archive:
                return _read_members(archive, size)
        except (zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError) as error:
            raise ValueError(f"{path.name}: {error}") from error


def _digest(file: BinaryIO) -> str:
    digest = xxhash.xxh3_128()
    while piece := file.read(1 << 20):
        digest.update(piece)
    return digest.hexdigest()


def _read_members(archive: zipfile.ZipFile, size: int) -> dict[str, NDArray[Any]]:
    members = archive.infolist()
    plain = all(
        member.compress_type == zipfile.ZIP_STORED and member.filename.endswith(".npy")
        for member in members
    )
    # Members that lie over one another could add up to more than the file holds.
    total = sum(member.file_size for member in members)
    if not plain or len(members) > _MAX_MEMBERS or total > size:
        raise ValueError("its archive is none of ours")
    return {
        member.filename.removesuffix(".npy"): _read_array(archive, member) for member in members
    }


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    import numpy as np

    with archive.open(member) as stream:
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError("an array in another version of its format")
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        if dtype.str not in _DTYPES or len(shape) != 1:
            raise ValueError("an array of another kind")
        data = stream.read()  # to its end: the archive's own checksum is proven there
    if len(data) != shape[0] * dtype.itemsize:
        raise ValueError("an array that is not whole")
    return np.frombuffer(data, dtype)

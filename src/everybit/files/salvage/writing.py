"""Writing tensors as a safetensors file: streamed, atomic, never over an existing file."""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from everybit.core.errors import PathError
from everybit.files.geometry import STORED_ITEMSIZE
from everybit.files.parts import Assembly, assembled_chunks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from everybit.files.parts import Part

#: By canonical dtype: the format's name, and how many of its elements one of ours holds.
_NAMES: Final = {
    "bool": ("BOOL", 1), "uint8": ("U8", 1), "int8": ("I8", 1), "uint16": ("U16", 1),
    "int16": ("I16", 1), "uint32": ("U32", 1), "int32": ("I32", 1), "uint64": ("U64", 1),
    "int64": ("I64", 1), "float16": ("F16", 1), "bfloat16": ("BF16", 1), "float32": ("F32", 1),
    "float64": ("F64", 1), "complex64": ("C64", 1), "float8_e4m3fn": ("F8_E4M3", 1),
    "float8_e4m3fnuz": ("F8_E4M3FNUZ", 1), "float8_e5m2": ("F8_E5M2", 1),
    "float8_e5m2fnuz": ("F8_E5M2FNUZ", 1), "float8_e8m0fnu": ("F8_E8M0", 1),
    "float4_e2m1fn_x2": ("F4", 2),
}  # fmt: skip
#: Types that the format lacks, by those that their bytes are stored as.
_AS_OTHERS: Final = {
    "complex32": ("F16", 2), "complex128": ("F64", 2), "quint8": ("U8", 1), "qint8": ("I8", 1),
    "qint32": ("I32", 1), "bits16": ("U16", 1),
}  # fmt: skip
_RAW: Final = ("U8", 1)


class Stored(Protocol):
    """A tensor to write."""

    @property
    def name(self) -> str:
        """Its name in the new file."""

    @property
    def dtype(self) -> str:
        """Canonical dtype name."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """Where its elements lie."""


def stored_as(dtype: str) -> str:
    """Return the type that the format stores a dtype as, where it is another; else ""."""
    if dtype in _NAMES:
        return ""
    name, count = _AS_OTHERS.get(dtype, _RAW)
    return f"{name} x {count}" if count > 1 else name


def write_safetensors(
    place: Path,
    root: Path,
    tensors: Sequence[Stored],
    metadata: Mapping[str, str],
    progress: Callable[[int], None],
) -> None:
    """Write tensors to a new file that is not to be seen before it is complete.

    Args:
        place: A temporary file, open to be written.
        root: What the tensors' parts are relative to.
        tensors: The tensors, with different names.
        metadata: For the header.
        progress: Is told the bytes written, as they are.

    Raises:
        PathError: It cannot be written, or a tensor's file cannot be read to its end.
        OSError: The disk is full, or fails.
    """
    # Wide elements first, so that every tensor lies at a multiple of its element size.
    ordered = sorted(tensors, key=lambda kept: (-STORED_ITEMSIZE[kept.dtype], kept.name))
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    at = 0
    for kept in ordered:
        length = math.prod(kept.shape) * STORED_ITEMSIZE[kept.dtype]
        header[kept.name] = {**_form(kept), "data_offsets": [at, at + length]}
        at += length
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with place.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for kept in ordered:
            whole = Assembly(
                root=root,
                itemsize=STORED_ITEMSIZE[kept.dtype],
                shape=kept.shape,
                parts=kept.parts,
            )
            left = whole.num_bytes
            for chunk in assembled_chunks(whole) if left else ():
                file.write(chunk)
                left -= len(chunk)
                progress(len(chunk))
            if left:
                raise PathError(f"tensor {kept.name} ended while it was read", where=str(root))
        file.flush()
        os.fsync(file.fileno())


def _form(kept: Stored) -> dict[str, Any]:
    name, count = _NAMES.get(kept.dtype) or _AS_OTHERS.get(kept.dtype) or _RAW
    shape = list(kept.shape)
    if count > 1 and kept.dtype in _NAMES and shape:
        shape[-1] *= count  # packed elements
    elif count > 1:
        shape.append(count)  # parts of one element
    return {"dtype": name, "shape": shape}


@contextlib.contextmanager
def new_file(path: Path) -> Any:
    """Give a temporary file that becomes `path` at the end, if nothing has come to lie there.

    Raises:
        PathError: Something lies at `path`, or it cannot be written; nothing is left behind.
    """
    refuse_existing(path)
    temporary = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        temporary.chmod(0o644)
        yield temporary
        put_new(temporary, path)
    except OSError as error:
        raise PathError.from_os_error(error, path) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def put_new(temporary: Path, path: Path) -> None:
    """Give a finished file its name; a link fails where something lies, a rename would replace."""
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        raise _exists(path) from None
    except OSError:
        # Some file systems have no links.
        refuse_existing(path)
        temporary.rename(path)


def refuse_existing(path: Path) -> None:
    """Raise `PathError` where something lies at a path that is to be written anew."""
    if path.exists() or path.is_symlink():
        raise _exists(path)
    if not path.absolute().parent.is_dir():
        raise PathError(
            "the folder it should lie in does not exist", where=str(path), todo="create it first"
        )


def _exists(path: Path) -> PathError:
    return PathError(
        "exists already and is not overwritten", where=str(path), todo="give another place"
    )

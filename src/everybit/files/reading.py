"""Reading a model file: what it is, its tensors, and their bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from everybit.core.errors import DamagedError, PathError
from everybit.core.verdict import Skipped
from everybit.files.contents import describe
from everybit.files.damage import MalformedError, TooLargeError
from everybit.files.elements import canonical_chunks, expands_too_far, tensor_digest
from everybit.files.formats import (
    dcp_metadata,
    distcp,
    npy,
    npz,
    safetensors,
    tokens,
    torch_legacy,
    torch_tar,
    torch_zip,
)
from everybit.files.identify import identify
from everybit.files.kept import keep_structure, kept_structure
from everybit.files.source import ByteSource
from everybit.files.structure import TENSORS, Structure
from everybit.files.tensor import FileFormat, FileTensor, FileTensors

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    from everybit.core.digest import Digest

_NOT_MODELS: Final = frozenset(
    {
        FileFormat.EMPTY,
        FileFormat.LFS_POINTER,
        FileFormat.HTML,
        FileFormat.TEXT,
        FileFormat.ZEROS,
        FileFormat.COMPRESSED,
    }
)
_READERS: Final[dict[FileFormat, Callable[[ByteSource], Structure]]] = {
    FileFormat.SAFETENSORS: safetensors.read_structure,
    FileFormat.ZIP: torch_zip.read_structure,
    FileFormat.DISTCP: distcp.read_structure,
    FileFormat.DCP_METADATA: dcp_metadata.read_structure,
    FileFormat.TORCH_LEGACY: torch_legacy.read_structure,
    FileFormat.TORCH_TAR: torch_tar.read_structure,
    FileFormat.NPY: npy.read_structure,
    FileFormat.NPZ: npz.read_structure,
    FileFormat.TOKENS: tokens.read_structure,
}


def read_structure(source: ByteSource) -> Structure:
    """Read the structure of an open file; of a format that is not read, only which it is.

    Damage that ends the reading is in the result like any other.
    """
    known = kept_structure(source)
    if known is not None:
        return known
    structure = _read(source)
    keep_structure(source, structure)
    return structure


def _read(source: ByteSource) -> Structure:
    kind = identify(source)
    reader = _READERS.get(kind)
    try:
        if reader is not None:
            return reader(source)
    except TooLargeError as error:
        skipped = (Skipped(what=TENSORS, why=error.damage.message),)
        return Structure(format=kind, skipped=skipped, values_whole=False)
    except MalformedError as error:
        return Structure(format=kind, damages=(error.damage,), values_whole=False)
    return Structure(format=kind)


def describe_not_a_model(kind: FileFormat, source: ByteSource) -> tuple[str, str]:
    """Return what a file that is no model is, and what to do; empty texts where it may be one."""
    if kind not in _NOT_MODELS:
        return "", ""
    content = describe(source, kind)
    return content.what, content.todo


def read_tensors(path: str | PathLike[str], *, digests: bool = True) -> FileTensors:
    """Read the tensors of one model file, without torch and without loading them.

    Args:
        path: A safetensors file or a `torch.save` archive.
        digests: Also read every tensor's bytes, for its `tree` digest. A tensor that repeats its
            storage too often, or lies in a compressed member, has none.

    Raises:
        PathError: The file cannot be read, or changes while it is.
        DamagedError: It is damaged, or no model file; names the rule.
    """
    place = Path(path)
    with ByteSource(place) as source:
        structure = read_structure(source)
        if structure.damages:
            raise structure.damages[0].error(place)
        todo = "give a safetensors file or one that `torch.save` wrote"
        refuse_unreadable(structure, source, todo=todo)
        tensors = structure.tensors
        if digests:
            tensors = digest_tensors(source, tensors)
        if source.changed():
            raise PathError("changed while it was read", where=str(place), todo="try again")
        return FileTensors(
            path=str(place),
            format=structure.format,
            size_bytes=source.size,
            tensors=tensors,
            notes=structure.notes,
            skipped=structure.skipped,
            values=structure.values,
            values_whole=structure.values_whole,
        )


def refuse_unreadable(structure: Structure, source: ByteSource, *, todo: str) -> None:
    """Refuse a file whose structure is right and from which no tensors can be read.

    Args:
        structure: Its structure.
        source: The file.
        todo: What to give instead.

    Raises:
        DamagedError: It is no model file (FIL118).
        PathError: It is of a format that is not read, or too large.
    """
    where = str(source.path)
    what, instead = describe_not_a_model(structure.format, source)
    if what:
        raise DamagedError(what, rule="FIL118", where=where, todo=instead)
    if not structure.format.holds_tensors:
        what = f"is of a format that this release does not read ({structure.format})"
        raise PathError(what, where=where, todo=todo)
    if structure.given_up:
        raise PathError(f"is too large for this release: {structure.given_up}", where=where)


def digest_tensors(source: ByteSource, tensors: tuple[FileTensor, ...]) -> tuple[FileTensor, ...]:
    """Return the tensors with their `tree` digests; equal places are read once."""
    known: dict[object, Digest] = {}
    found = []
    for tensor in tensors:
        if tensor.unreadable or expands_too_far(tensor):
            found.append(tensor)
            continue
        key = (
            tensor.dtype, tensor.shape, tensor.stride, tensor.start, tensor.inline,
            tensor.conjugate, tensor.negative, tensor.big_endian,
        )  # fmt: skip
        if key not in known:
            known[key] = tensor_digest(source, tensor)
        found.append(replace(tensor, tree=known[key]))
    return tuple(found)


def read_tensor_bytes(
    path: str | PathLike[str], tensor: FileTensor, start: int = 0, end: int | None = None
) -> bytes:
    """Return canonical bytes `[start, end)` of a tensor that `read_tensors` described.

    Args:
        path: The file.
        tensor: From `read_tensors` of the same file.
        start: First byte, counted in canonical bytes (element index times element size).
        end: Last byte, excluded; all where None.

    Raises:
        PathError: The file cannot be read, or the tensor's bytes cannot.
    """
    if tensor.unreadable:
        raise PathError(
            f"tensor {tensor.name} cannot be read: {tensor.unreadable}", where=str(path)
        )
    with ByteSource(Path(path)) as source:
        return b"".join(bytes(chunk) for chunk in canonical_chunks(source, tensor, start, end))

"""The manifest: what a folder's files held when they were sealed. `docs/manifest.md` describes it.

The file's first line holds a digest of everything after it, so that any flipped bit in it is
noticed:

    {
    "digest": "tree:<32 hexadecimal digits>",
    "schema": "everybit.manifest/1",
    ...

Reading back what was written gives the same values.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, overload

from everybit.core.digest import Algorithm, Digest
from everybit.core.errors import PathError
from everybit.core.tree import LEAF_BYTES, LEAF_DIGEST_BYTES, fold_leaves, tree_digest
from everybit.files.collection import paused_collection
from everybit.files.damage import MalformedError, malformed
from everybit.files.tensor import (
    STORED_ITEMSIZE,
    FileFormat,
    FileTensor,
    extent,
    row_major,
    shape_problem,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MANIFEST_NAME: Final = "MANIFEST.everybit.json"
SCHEMA: Final = "everybit.manifest/1"
CRC_BYTES: Final = 4

_HEAD: Final = b'{\n"digest": "tree:'
_HEX: Final = 32
_NECK: Final = b'",\n'
_MAX_BYTES: Final = 1 << 30
_WRONG: Final = (KeyError, TypeError, ValueError, AttributeError, RecursionError)
_IN_PICKLE: Final = "it is written as text inside the pickle"


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedFile:
    """What one file held.

    Attributes:
        path: Relative to the manifest's folder, with forward slashes.
        format: Its format.
        size_bytes: Its size.
        tree: Digest of the whole file.
        blake3: Digest of the whole file for those who may be lied to.
        leaves: XXH3-128 of each 64 KiB leaf, 16 bytes each.
        crcs: CRC-32 of each leaf, 4 bytes each, little-endian.
        tensors: Its tensors, with digests where they have one.
    """

    path: str
    format: FileFormat
    size_bytes: int
    tree: Digest
    blake3: Digest
    leaves: bytes
    crcs: bytes
    tensors: Sequence[FileTensor] = ()

    def leaf_digest(self, index: int) -> bytes:
        """Return the digest of one leaf."""
        return self.leaves[index * LEAF_DIGEST_BYTES : (index + 1) * LEAF_DIGEST_BYTES]

    def leaf_crc(self, index: int) -> int:
        """Return the CRC-32 of one leaf."""
        return int.from_bytes(self.crcs[index * CRC_BYTES : (index + 1) * CRC_BYTES], "little")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """All sealed files of a folder, by path, and when and by what they were sealed."""

    files: dict[str, SealedFile]
    sealed_at: str = ""
    sealed_by: str = ""

    def encode(self) -> bytes:
        """Return the manifest file's bytes."""
        files = ",\n".join(
            f"{json.dumps(path)}: {_encode_file(self.files[path])}" for path in sorted(self.files)
        )
        body = (
            f'"schema": {json.dumps(SCHEMA)},\n'
            f'"sealed_by": {json.dumps(self.sealed_by)},\n'
            f'"sealed_at": {json.dumps(self.sealed_at)},\n'
            f'"leaf_bytes": {LEAF_BYTES},\n'
            f'"files": {{\n{files}\n}}\n}}\n'
        ).encode("ascii")
        return _HEAD + _body_digest(body) + _NECK + body


def _body_digest(body: bytes) -> bytes:
    return tree_digest("bytes", (len(body),), body).hex.encode("ascii")


def _encode_file(file: SealedFile) -> str:
    tensors = ",\n".join(
        f"  {json.dumps(tensor.name)}: {json.dumps(_encode_tensor(tensor))}"
        for tensor in file.tensors
    )
    head = {
        "format": str(file.format),
        "size_bytes": file.size_bytes,
        "tree": str(file.tree),
        "blake3": str(file.blake3),
    }
    long = {
        "leaves": base64.b64encode(file.leaves).decode("ascii"),
        "crc32": base64.b64encode(file.crcs).decode("ascii"),
    }
    lines = [json.dumps(head)[1:-1], *(json.dumps({k: v})[1:-1] for k, v in long.items())]
    lines.append(f'"tensors": {{\n{tensors}\n }}' if tensors else '"tensors": {}')
    return "{" + ",\n ".join(lines) + "}"


def _encode_tensor(tensor: FileTensor) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "dtype": tensor.dtype,
        "shape": list(tensor.shape),
        "byte_ranges": [list(pair) for pair in tensor.byte_ranges],
    }
    if tensor.tree is not None:
        entry["tree"] = str(tensor.tree)
    if tensor.member is not None:
        entry["member"] = tensor.member
    if tensor.stride != row_major(tensor.shape):
        entry["stride"] = list(tensor.stride)
    for flag in ("big_endian", "conjugate", "negative"):
        if getattr(tensor, flag):
            entry[flag] = True
    unreadable = _IN_PICKLE if tensor.inline is not None else tensor.unreadable
    if unreadable:
        entry["unreadable"] = unreadable
    return entry


def load_manifest(folder: Path) -> Manifest | None:
    """Read the manifest of a folder; None where it has none.

    Raises:
        PathError: It cannot be opened, or a newer release wrote it.
        MalformedError: It does not hold (FIL110).
    """
    path = folder / MANIFEST_NAME
    try:
        if not path.is_file():
            return None
        size = path.stat().st_size
        if size > _MAX_BYTES:
            raise _broken(f"it has {size} bytes; none is larger than {_MAX_BYTES}")
        data = path.read_bytes()
    except OSError as error:
        raise PathError.from_os_error(error, path) from error
    return decode_manifest(data)


def decode_manifest(data: bytes) -> Manifest:
    """Read a manifest file's bytes.

    Raises:
        PathError: A newer release wrote it.
        MalformedError: It does not hold (FIL110).
    """
    start = len(_HEAD) + _HEX
    recorded = data[len(_HEAD) : start]
    body = data[start + len(_NECK) :]
    if not data.startswith(_HEAD) or data[start : start + len(_NECK)] != _NECK:
        raise _broken("it does not start with its digest", expected="a line with its digest")
    computed = _body_digest(body)
    if recorded != computed:
        raise _broken(
            "its content does not give the digest in its first line",
            expected=recorded.decode("ascii", "replace"),
            found=computed.decode("ascii"),
        )
    try:
        # The digest holds, so what follows guards against other releases and against malice.
        with paused_collection():
            document = json.loads(b"{" + body)
        if document["schema"] != SCHEMA:
            raise PathError(
                f"the manifest is of schema {str(document['schema'])[:40]!r}, which this release "
                "does not know",
                where=MANIFEST_NAME,
                todo="upgrade everybit, or seal the folder again",
            )
        if document["leaf_bytes"] != LEAF_BYTES:
            raise ValueError("leaf_bytes")
        return Manifest(
            files={path: _decode_file(path, entry) for path, entry in document["files"].items()},
            sealed_at=str(document["sealed_at"]),
            sealed_by=str(document["sealed_by"]),
        )
    except _WRONG as error:
        raise _wrong_field(error) from None


def _wrong_field(error: Exception) -> MalformedError:
    reason = " ".join(str(error).split())[:80] or type(error).__name__
    return _broken(f"a field is missing or cannot be right ({reason})")


def _broken(message: str, **evidence: str) -> MalformedError:
    return malformed(f"the manifest does not hold: {message}", rule="FIL110", evidence=evidence)


def _decode_file(path: str, entry: dict[str, Any]) -> SealedFile:
    parts = path.split("/")
    if (
        path.startswith("/")
        or "\\" in path
        or "\0" in path
        or not {"", ".", ".."}.isdisjoint(parts)
    ):
        raise ValueError(f"path {path!r} leads out of the folder")
    size = _size(entry["size_bytes"])
    leaves = base64.b64decode(entry["leaves"], validate=True)
    crcs = base64.b64decode(entry["crc32"], validate=True)
    tree = Digest.parse(entry["tree"])
    if fold_leaves("bytes", (size,), size, leaves) != tree:
        raise ValueError(f"leaves of {path!r} do not give its digest")
    if len(crcs) * LEAF_DIGEST_BYTES != len(leaves) * CRC_BYTES:
        raise ValueError(f"crc32 of {path!r}")
    blake3 = Digest.parse(entry["blake3"])
    if blake3.algorithm is not Algorithm.BLAKE3:
        raise ValueError(f"blake3 of {path!r}")
    if not isinstance(entry["tensors"], dict):
        raise ValueError(f"tensors of {path!r}")
    return SealedFile(
        path=path,
        format=FileFormat(entry["format"]),
        size_bytes=size,
        tree=tree,
        blake3=blake3,
        leaves=leaves,
        crcs=crcs,
        tensors=_LazyTensors(entry["tensors"], size),
    )


class _LazyTensors(Sequence[FileTensor]):
    """Tensors of an entry, decoded when they are first looked at: an equal file needs none.

    Raises `MalformedError` then (FIL110) where one cannot be right.
    """

    def __init__(self, entries: dict[str, Any], file_size: int) -> None:
        self._entries = entries
        self._file_size = file_size

    @cached_property
    def _decoded(self) -> tuple[FileTensor, ...]:
        try:
            with paused_collection():
                return tuple(
                    _decode_tensor(name, entry, self._file_size)
                    for name, entry in self._entries.items()
                )
        except _WRONG as error:
            raise _wrong_field(error) from None

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, index: int) -> FileTensor: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[FileTensor]: ...
    def __getitem__(self, index: int | slice) -> FileTensor | Sequence[FileTensor]:
        return self._decoded[index]

    def __iter__(self) -> Iterator[FileTensor]:
        return iter(self._decoded)


def _decode_tensor(name: str, entry: dict[str, Any], file_size: int) -> FileTensor:
    shape = tuple(_size(value) for value in entry["shape"])
    ranges = tuple((_size(start), _size(end)) for start, end in entry["byte_ranges"])
    if any(not start < end <= file_size for start, end in ranges):
        raise ValueError(f"byte_ranges of {name!r}")
    stride = tuple(_size(value) for value in entry.get("stride", row_major(shape)))
    if entry["dtype"] not in STORED_ITEMSIZE or len(stride) != len(shape):
        raise ValueError(f"dtype or stride of {name!r}")
    tree = Digest.parse(entry["tree"]) if "tree" in entry else None
    tensor = FileTensor(
        name=name,
        dtype=entry["dtype"],
        shape=shape,
        byte_ranges=ranges,
        stride=stride,
        start=ranges[0][0] if ranges else 0,
        member=entry.get("member"),
        big_endian=entry.get("big_endian") is True,
        conjugate=entry.get("conjugate") is True,
        negative=entry.get("negative") is True,
        unreadable=str(entry.get("unreadable", "")),
        tree=tree,
    )
    if ranges and not tensor.unreadable and not _fits(tensor):
        raise ValueError(f"byte_ranges of {name!r} do not hold its elements")
    return tensor


def _fits(tensor: FileTensor) -> bool:
    """Return whether a tensor's elements lie within its byte range."""
    if shape_problem(tensor.shape) or len(tensor.byte_ranges) > 1:
        return False
    needed = extent(tensor.shape, tensor.stride) * tensor.itemsize
    held = sum(end - start for start, end in tensor.byte_ranges)
    return needed == held


def _size(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError("a size or offset is no such number")
    return value

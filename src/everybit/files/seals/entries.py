"""An entry of the manifest: what one file held, as values and as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, overload

from everybit.core.digest import Algorithm, Digest
from everybit.core.tree import LEAF_DIGEST_BYTES, fold_leaves
from everybit.files.collection import paused_collection
from everybit.files.damage import MalformedError, malformed
from everybit.files.geometry import STORED_ITEMSIZE, extent, row_major, shape_problem
from everybit.files.tensor import FileFormat, FileTensor
from everybit.files.trust.origin import NO_ORIGIN, Origin, decode_origin

if TYPE_CHECKING:
    from collections.abc import Iterator

CRC_BYTES: Final = 4
#: What a field that is missing or of another kind raises while it is read.
WRONG: Final = (KeyError, TypeError, ValueError, AttributeError, RecursionError)
_IN_PICKLE: Final = "it is written as text inside the pickle"


class TakenFrom(StrEnum):
    """Where a file's tensor digests were taken.

    Attributes:
        FILE: From the file itself.
        MEMORY: In memory before it was written; whether it holds the same is for `verify` to see.
        PROVED: In memory before it was written, and found in it when it was sealed.
    """

    FILE = "file"
    MEMORY = "memory"
    PROVED = "proved"


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedFile:
    """What one file held.

    Attributes:
        path: Relative to the manifest's folder, with forward slashes.
        format: Its format.
        size_bytes: Its size.
        tree: Digest of the whole file.
        blake3: Digest of the whole file for those who may be lied to.
        sha256: The digest that other tools print, where it was asked for.
        meaning: Digest of what it says however it is written, for kinds of files that have one.
        leaves: XXH3-128 of each 64 KiB leaf, 16 bytes each.
        crcs: CRC-32 of each leaf, 4 bytes each, little-endian.
        tensors: Its tensors, with digests where they have one.
        tensor_leaves: `{tensor name: XXH3-128 of each 64 KiB of its canonical bytes}`, for tensors
            whose place in the file does not give them.
        taken_from: Where the tensors' digests were taken. Those from memory are held against the
            file even where its own leaves are as sealed: it may have been written damaged.
        parameter_order: Names of parameters in the order in which an optimizer numbers them, or
            of all tensors in the order of the state dict; empty where the file does not say.
        origin: Where its bytes came from, as whoever sealed it said.
    """

    path: str
    format: FileFormat
    size_bytes: int
    tree: Digest
    blake3: Digest
    sha256: Digest | None = None
    meaning: Digest | None = None
    leaves: bytes
    crcs: bytes
    tensors: Sequence[FileTensor] = ()
    tensor_leaves: Mapping[str, bytes] = field(default_factory=dict)
    taken_from: TakenFrom = TakenFrom.FILE
    parameter_order: tuple[str, ...] = ()
    origin: Origin = NO_ORIGIN

    def leaf_digest(self, index: int) -> bytes:
        """Return the digest of one leaf."""
        return self.leaves[index * LEAF_DIGEST_BYTES : (index + 1) * LEAF_DIGEST_BYTES]

    def leaf_crc(self, index: int) -> int:
        """Return the CRC-32 of one leaf."""
        return int.from_bytes(self.crcs[index * CRC_BYTES : (index + 1) * CRC_BYTES], "little")


def encode_file(file: SealedFile) -> str:
    """Return an entry as JSON in ASCII, a tensor a line."""
    tensors = ",\n".join(
        f"  {json.dumps(tensor.name)}: {json.dumps(_encode_tensor(tensor, file))}"
        for tensor in file.tensors
    )
    head: dict[str, Any] = {
        "format": str(file.format),
        "size_bytes": file.size_bytes,
        "tree": str(file.tree),
        "blake3": str(file.blake3),
    }
    if file.sha256 is not None:
        head["sha256"] = str(file.sha256)
    if file.meaning is not None:
        head["meaning"] = str(file.meaning)
    if file.taken_from is not TakenFrom.FILE:
        head["taken_from"] = str(file.taken_from)
    head |= file.origin.encode()
    long: dict[str, Any] = {"leaves": _text(file.leaves), "crc32": _text(file.crcs)}
    if file.parameter_order:
        places = {tensor.name: place for place, tensor in enumerate(file.tensors)}
        long["parameter_order"] = [places.get(name, name) for name in file.parameter_order]
    lines = [json.dumps(head)[1:-1], *(json.dumps({k: v})[1:-1] for k, v in long.items())]
    lines.append(f'"tensors": {{\n{tensors}\n }}' if tensors else '"tensors": {}')
    return "{" + ",\n ".join(lines) + "}"


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _encode_tensor(tensor: FileTensor, file: SealedFile) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "dtype": tensor.dtype,
        "shape": list(tensor.shape),
        "byte_ranges": [list(pair) for pair in tensor.byte_ranges],
    }
    if tensor.tree is not None:
        entry["tree"] = str(tensor.tree)
    if tensor.name in file.tensor_leaves:
        entry["leaves"] = _text(file.tensor_leaves[tensor.name])
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


def wrong_field(error: Exception) -> MalformedError:
    """Return the error for a manifest one of whose fields cannot be right (FIL110)."""
    reason = " ".join(str(error).split())[:80] or type(error).__name__
    return broken(f"a field is missing or cannot be right ({reason})")


def broken(message: str, **evidence: str) -> MalformedError:
    """Return the error for a manifest that does not hold (FIL110)."""
    return malformed(f"the manifest does not hold: {message}", rule="FIL110", evidence=evidence)


def decode_file(path: str, entry: dict[str, Any]) -> SealedFile:
    """Read an entry; its tensors are read when they are first looked at.

    Raises:
        One of `WRONG`: A field is missing or cannot be right.
    """
    check_path(path)
    size = _size(entry["size_bytes"])
    leaves = base64.b64decode(entry["leaves"], validate=True)
    crcs = base64.b64decode(entry["crc32"], validate=True)
    tree = Digest.parse(entry["tree"])
    if fold_leaves("bytes", (size,), size, leaves) != tree:
        raise ValueError(f"leaves of {path!r} do not give its digest")
    if len(crcs) * LEAF_DIGEST_BYTES != len(leaves) * CRC_BYTES:
        raise ValueError(f"crc32 of {path!r}")
    entries = entry["tensors"]
    if not isinstance(entries, dict):
        raise ValueError(f"tensors of {path!r}")
    tensors = _LazyTensors(entries, size)
    return SealedFile(
        path=path,
        format=FileFormat(entry["format"]),
        size_bytes=size,
        tree=tree,
        blake3=_digest(entry["blake3"], Algorithm.BLAKE3, path),
        sha256=_digest(entry["sha256"], Algorithm.SHA256, path) if "sha256" in entry else None,
        meaning=Digest.parse(entry["meaning"]) if "meaning" in entry else None,
        leaves=leaves,
        crcs=crcs,
        tensors=tensors,
        tensor_leaves=_LazyLeaves(entries),
        taken_from=TakenFrom(entry.get("taken_from", TakenFrom.FILE)),
        parameter_order=_order(entry.get("parameter_order", ()), list(entries)),
        origin=decode_origin(entry),
    )


def check_path(path: str) -> None:
    """Raise `ValueError` for a path that leads out of the manifest's folder."""
    parts = path.split("/")
    if (
        path.startswith("/")
        or "\\" in path
        or "\0" in path
        or not {"", ".", ".."}.isdisjoint(parts)
    ):
        raise ValueError(f"path {path!r} leads out of the folder")


def _digest(text: str, algorithm: Algorithm, path: str) -> Digest:
    digest = Digest.parse(text)
    if digest.algorithm is not algorithm or len(digest.hex) != 64:
        raise ValueError(f"{algorithm} of {path!r}")
    return digest


def _order(listed: Any, names: list[str]) -> tuple[str, ...]:
    found = []
    for item in listed:
        if isinstance(item, str):
            found.append(item)
        elif type(item) is int and 0 <= item < len(names):
            found.append(names[item])
        else:
            raise ValueError("parameter_order")
    return tuple(found)


class _LazyLeaves(Mapping[str, bytes]):
    """Leaves of an entry's tensors, decoded when they are asked for."""

    def __init__(self, entries: dict[str, Any]) -> None:
        self._entries = entries

    def __getitem__(self, name: str) -> bytes:
        text = self._entries[name]["leaves"]
        try:
            leaves = base64.b64decode(text, validate=True)
            shape = tuple(self._entries[name]["shape"])
            dtype = self._entries[name]["dtype"]
            num_bytes = STORED_ITEMSIZE[dtype]
            for size in shape:
                num_bytes *= _size(size)
            tree = Digest.parse(self._entries[name]["tree"])
            if fold_leaves(dtype, shape, num_bytes, leaves) != tree:
                raise ValueError(f"leaves of tensor {name!r} do not give its digest")
        except WRONG as error:
            raise wrong_field(error) from None
        return leaves

    def __iter__(self) -> Iterator[str]:
        return (name for name, entry in self._entries.items() if "leaves" in entry)

    def __len__(self) -> int:
        return sum(1 for _ in self)


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
        except WRONG as error:
            raise wrong_field(error) from None

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

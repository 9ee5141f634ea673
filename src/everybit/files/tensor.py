"""A stored tensor as a description: where its elements lie in the file, and how to read them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from everybit.core.dtype import ITEMSIZE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.core.digest import Digest
    from everybit.core.verdict import Skipped
    from everybit.files.pickles.plain import Plain

#: Element sizes of dtypes that files can hold and for which no value can be decoded.
_OPAQUE: Final = {
    "bits8": 1,
    "bits16": 2,
    "bits1x8": 1,
    "bits2x4": 1,
    "bits4x2": 1,
}

#: Element sizes of everything a file can hold, in bytes.
STORED_ITEMSIZE: Final[dict[str, int]] = {**ITEMSIZE, **_OPAQUE}

MAX_DIMENSIONS: Final = 64
_MAX_ELEMENTS: Final = 1 << 62


class FileFormat(StrEnum):
    """What a file's content is, whatever its name."""

    SAFETENSORS = "safetensors"
    TORCH_ZIP = "torch-zip"
    DISTCP = "distcp"
    DCP_METADATA = "dcp-metadata"
    ZIP = "zip"
    TORCH_LEGACY = "torch-legacy"
    TORCH_TAR = "torch-tar"
    NPY = "npy"
    NPZ = "npz"
    TOKENS = "tokens"
    PICKLE = "pickle"
    TAR = "tar"
    GGUF = "gguf"
    HDF5 = "hdf5"
    COMPRESSED = "compressed"
    EMPTY = "empty"
    LFS_POINTER = "lfs-pointer"
    HTML = "html"
    TEXT = "text"
    ZEROS = "zeros"
    UNKNOWN = "unknown"

    @property
    def readable(self) -> bool:
        """Whether this release reads the format's structure."""
        return self in (FileFormat.ZIP, FileFormat.DCP_METADATA) or self.holds_tensors

    @property
    def holds_tensors(self) -> bool:
        """Whether this release reads tensors out of it."""
        return self in _WITH_TENSORS

    @property
    def checksummed(self) -> bool:
        """Whether the format has room for checksums of its contents."""
        return self in _WITH_CHECKSUMS


_WITH_CHECKSUMS: Final = frozenset(
    {FileFormat.TORCH_ZIP, FileFormat.DISTCP, FileFormat.ZIP, FileFormat.NPZ}
)
_WITH_TENSORS: Final = frozenset(
    {
        FileFormat.SAFETENSORS,
        FileFormat.TORCH_ZIP,
        FileFormat.DISTCP,
        FileFormat.TORCH_LEGACY,
        FileFormat.TORCH_TAR,
        FileFormat.NPY,
        FileFormat.NPZ,
        FileFormat.TOKENS,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTensor:
    """One tensor of a model file.

    Attributes:
        name: Dotted key path in the file.
        dtype: Canonical dtype name.
        shape: Shape.
        byte_ranges: `[start, end)` ranges of the file that hold its elements, sorted; for strides
            with gaps the range that covers them. Empty for a tensor without bytes.
        stride: Distance of neighbours along each dimension, in elements.
        start: File offset of the element at index zero.
        member: Archive member that holds it.
        big_endian: Its elements are stored big-endian.
        conjugate: The stored elements are the conjugates of the values.
        negative: The stored elements are the values negated.
        inline: The canonical bytes themselves, for a small array written inside the pickle.
        unreadable: Why its elements cannot be read (a compressed member); empty where they can.
        tree: Digest of the canonical bytes, where it was asked for and can be computed.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    byte_ranges: tuple[tuple[int, int], ...]
    stride: tuple[int, ...]
    start: int
    member: str | None = None
    big_endian: bool = False
    conjugate: bool = False
    negative: bool = False
    inline: bytes | None = None
    unreadable: str = ""
    tree: Digest | None = None

    @property
    def itemsize(self) -> int:
        """Bytes an element."""
        return STORED_ITEMSIZE[self.dtype]

    @property
    def num_elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def num_bytes(self) -> int:
        """Length of the canonical bytes."""
        return self.num_elements * self.itemsize

    @property
    def plain(self) -> bool:
        """Whether the file's bytes from `start` on are the canonical bytes."""
        return (
            self.stride == row_major(self.shape)
            and self.inline is None
            and not (self.conjugate or self.negative)
            and not (self.big_endian and self.itemsize > 1)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTensors:
    """The tensors of one model file.

    Attributes:
        path: The file.
        format: Its format.
        size_bytes: Its size.
        tensors: In file order of their first byte, then by name.
        notes: Remarks for people.
        skipped: Parts that could not be read or named.
        values: Plain values beside the tensors, by dotted key path.
        values_whole: These are all of them.
    """

    path: str
    format: FileFormat
    size_bytes: int
    tensors: tuple[FileTensor, ...]
    notes: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    values: Mapping[str, Plain] = field(default_factory=dict)
    values_whole: bool = True

    def by_name(self) -> dict[str, FileTensor]:
        """Return `{name: tensor}`."""
        return {tensor.name: tensor for tensor in self.tensors}


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor.

    >>> row_major((2, 3, 4))
    (12, 4, 1)
    """
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def normal_stride(shape: tuple[int, ...], stride: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides with those that are never walked set as in a contiguous tensor.

    The stride of a dimension of size one says nothing, nor does any stride of an empty tensor, and
    writers leave anything there.
    """
    contiguous = row_major(shape)
    if 0 in shape:
        return contiguous
    walked = list(stride)
    for axis, size in enumerate(shape):
        if size == 1:
            walked[axis] = contiguous[axis]
    return tuple(walked)


def shape_problem(shape: tuple[int, ...]) -> str:
    """Return why a shape cannot be, or ""."""
    if len(shape) > MAX_DIMENSIONS:
        return f"{len(shape)} dimensions"
    if any(size < 0 for size in shape):
        return f"negative size in shape {list(shape)}"
    product = 1
    for size in shape:
        product *= max(size, 1)
        if product > _MAX_ELEMENTS:
            return f"more than 2^62 elements in shape {[str(size)[:20] for size in shape]}"
    return ""


def extent(shape: tuple[int, ...], stride: tuple[int, ...]) -> int:
    """Return how many elements of storage the strides span, from the first to the last.

    >>> extent((2, 3), (1, 2))
    6
    """
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))

"""A stored tensor as a description: where its elements lie in the file, and how to read them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from everybit.files.geometry import STORED_ITEMSIZE, row_major

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.core.digest import Digest
    from everybit.core.verdict import Skipped
    from everybit.files.pickles.plain import Plain


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

"""What is scanned: a file, or something inside one, and what it is by its content."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from everybit.core.finding import Location
from everybit.core.making import made

if TYPE_CHECKING:
    from everybit.files.pickles.stream import Stream
    from everybit.files.source import ByteSource


class Kind(StrEnum):
    """What a content is, whatever its name."""

    # An enum's own hash is a call in Python, and kinds are looked up for every file and member.
    __hash__ = str.__hash__

    PICKLE = "pickle"
    TORCH_LEGACY = "torch-legacy"
    ZIP = "zip"
    TAR = "tar"
    GZIP = "gzip"
    BZIP2 = "bzip2"
    XZ = "xz"
    LZMA = "lzma"
    ZLIB = "zlib"
    ZFILE = "zfile"
    ZSTD = "zstd"
    LZ4 = "lz4"
    SEVEN_ZIP = "7z"
    RAR = "rar"
    NPY = "npy"
    SAFETENSORS = "safetensors"
    GGUF = "gguf"
    HDF5 = "hdf5"
    ONNX = "onnx"
    JSON = "json"
    TEXT = "text"
    NATIVE = "native"
    EMPTY = "empty"
    HTML = "html"
    LFS_POINTER = "lfs-pointer"
    OTHER = "other"

    @property
    def packed(self) -> bool:
        """Whether it is one compressed stream."""
        return self in _PACKED


_PACKED = frozenset(
    {Kind.GZIP, Kind.BZIP2, Kind.XZ, Kind.LZMA, Kind.ZLIB, Kind.ZFILE, Kind.ZSTD, Kind.LZ4}
)


#: Longer names of members are cut where they are told.
_MAX_NAME = 300


class Content:
    """Bytes to look into.

    Attributes:
        source: The bytes.
        path: The file that they are, or lie in, as findings tell it.
        member: The archive member that they are, with those around it (`a.zip!b.pkl`); None for
            a file itself.
        start: Where they begin in the file; None where they were decompressed.
        depth: How many containers they lie in.
        by_law: The format around them says that they are a pickle, so one that cannot be read
            is a finding.
        compiled: A pickle of TorchScript: `__torch__` names are classes of its own.
        partial: Its end was not expanded, which is told; that it breaks off is no damage.
        two: It is of another format as well, which tells of what this one does not cover.
        kind: What it is looked into as.
        stream: The pickles that it is, where telling that read all of it; None elsewhere.
        name: The last name of the file or member.
        label: What sentences call it.
    """

    __slots__ = (
        "by_law", "compiled", "depth", "kind", "label", "member", "name", "partial", "path",
        "source", "start", "stream", "two",
    )  # fmt: skip

    def __init__(
        self,
        *,
        source: ByteSource,
        path: str,
        member: str | None = None,
        start: int | None = 0,
        depth: int = 0,
        by_law: bool = False,
        compiled: bool = False,
        partial: bool = False,
        two: bool = False,
        kind: Kind = Kind.OTHER,
    ) -> None:
        self.source = source
        self.path = path
        self.member = member
        self.start = start
        self.depth = depth
        self.by_law = by_law
        self.compiled = compiled
        self.partial = partial
        self.two = two
        self.kind = kind
        self.stream: Stream | None = None
        whole = path if member is None else member.rpartition("!")[2]
        if "/" in whole or "\\" in whole:
            whole = whole.replace("\\", "/").rstrip("/").rpartition("/")[2]
        self.name = whole
        self.label = path if member is None else f"{path} ({member})"

    def keep(self, stream: Stream) -> None:
        """Keep the pickles that it is, all of them."""
        self.stream = stream

    def but(self, **changes: Any) -> Content:
        """Return the same content with some attributes changed."""
        given: dict[str, Any] = {
            "source": self.source,
            "path": self.path,
            "member": self.member,
            "start": self.start,
            "depth": self.depth,
            "by_law": self.by_law,
            "compiled": self.compiled,
            "partial": self.partial,
            "two": self.two,
            "kind": self.kind,
        }
        return Content(**{**given, **changes})

    def place(self, start: int | None = None, end: int | None = None) -> Location:
        """Return the location of bytes `[start, end)` of this content; of all of it without."""
        if self.start is None or start is None:
            return made(Location, path=self.path, member=self.member)
        last = start + 1 if end is None else end
        return made(
            Location,
            path=self.path,
            member=self.member,
            byte_range=(self.start + start, self.start + max(last, start + 1)),
        )

    def inside(self, name: str) -> str:
        """Return the full member name of something in this content."""
        name = name if len(name) <= _MAX_NAME else name[: _MAX_NAME - 3] + "..."
        return name if self.member is None else f"{self.member}!{name}"

"""What a file is, by its content and never by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.files.formats.dcp_metadata import METADATA_MODULE
from everybit.files.formats.npy import MAGIC as NPY_MAGIC
from everybit.files.formats.safetensors import MAX_HEADER_BYTES
from everybit.files.formats.tokens import is_token_head
from everybit.files.tar import is_tar_header
from everybit.files.tensor import FileFormat

if TYPE_CHECKING:
    from everybit.files.source import ByteSource

#: What is looked at from the start of a file.
HEAD_BYTES: Final = 512
_MARKS: Final = (
    (b"PK\x03\x04", FileFormat.ZIP),
    (b"GGUF", FileFormat.GGUF),
    (b"\x89HDF\r\n\x1a\n", FileFormat.HDF5),
    (NPY_MAGIC, FileFormat.NPY),
    (b"\x1f\x8b\x08", FileFormat.COMPRESSED),
    (b"BZh", FileFormat.COMPRESSED),
    (b"\xfd7zXZ\0", FileFormat.COMPRESSED),
    (b"\x28\xb5\x2f\xfd", FileFormat.COMPRESSED),
    (b"\x04\x22\x4d\x18", FileFormat.COMPRESSED),
    (b"\x02\x21\x4c\x18", FileFormat.COMPRESSED),
    (b"7z\xbc\xaf\x27\x1c", FileFormat.COMPRESSED),
    (b"Rar!\x1a\x07", FileFormat.COMPRESSED),
)
#: A frame that zstd and lz4 pass over begins with a byte from 0x50 to 0x5f, and these.
_SKIPPED_FRAME: Final = b"\x2a\x4d\x18"
# The first pickle of the format before torch 1.6 is this number.
_LEGACY_MAGIC: Final = b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_TEXT_BYTES: Final = frozenset(range(32, 127)) | {9, 10, 12, 13, 27} | set(range(128, 256))

#: Names under which people keep models.
MODEL_SUFFIXES: Final = frozenset(
    {".pt", ".pth", ".ckpt", ".safetensors", ".distcp", ".npy", ".npz"}
)


def sniff(source: ByteSource) -> FileFormat:
    """Return what the file's content is."""
    head = source.read(0, HEAD_BYTES)
    kind = sniff_head(head)
    if kind in (FileFormat.ZEROS, FileFormat.TEXT, FileFormat.HTML, FileFormat.UNKNOWN):
        return _zip_by_its_end(source) or kind
    return kind


def sniff_head(head: bytes) -> FileFormat:
    """Return what the first `HEAD_BYTES` of a file say that it is."""
    if not head:
        return FileFormat.EMPTY
    for mark, kind in _MARKS:
        if head.startswith(mark):
            return kind
    if b"P" <= head[:1] <= b"_" and head[1:4] == _SKIPPED_FRAME:
        return FileFormat.COMPRESSED
    if is_token_head(head):
        return FileFormat.TOKENS
    if is_tar_header(head):
        return FileFormat.TAR
    if _is_safetensors(head):
        return FileFormat.SAFETENSORS
    if _is_legacy(head):
        return FileFormat.TORCH_LEGACY
    if head[:1] == b"\x80" and head[1:2] <= b"\x05":
        return FileFormat.DCP_METADATA if METADATA_MODULE in head else FileFormat.PICKLE
    if not head.strip(b"\0"):
        return FileFormat.ZEROS
    return _text(head) or FileFormat.UNKNOWN


def _is_safetensors(head: bytes) -> bool:
    length = int.from_bytes(head[:8], "little")
    brace, quote = head[8:9] == b"{", head[9:10] in (b'"', b"}")
    # One damaged byte among these must not hide the format.
    return (brace and (length <= MAX_HEADER_BYTES or quote)) or (
        quote and head[9:10] == b'"' and 2 <= length <= MAX_HEADER_BYTES
    )


def _is_legacy(head: bytes) -> bool:
    """Return whether the first pickle is torch's magic number, but for one damaged byte."""
    if len(head) < len(_LEGACY_MAGIC) + 2:
        return len(head) > 3 and (b"\x80\x02" + _LEGACY_MAGIC).startswith(head)
    if _LEGACY_MAGIC in head[2:24]:  # from protocol 4 on a frame stands before it
        return True
    pairs = zip(head, b"\x80\x02" + _LEGACY_MAGIC, strict=False)
    return sum(found != right for found, right in pairs) <= 1


def _zip_by_its_end(source: ByteSource) -> FileFormat | None:
    tail = source.read(max(0, source.size - 22), 22)
    return FileFormat.ZIP if tail[:4] == b"PK\x05\x06" else None


def _text(head: bytes) -> FileFormat | None:
    if head.startswith(b"version https://git-lfs"):
        return FileFormat.LFS_POINTER
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype html", b"<html", b"<?xml", b"<head")):
        return FileFormat.HTML
    if not _TEXT_BYTES.issuperset(head):
        return None
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:
            return None
    return FileFormat.TEXT


def looks_like_model_name(name: str) -> bool:
    """Return whether people keep models under such a name."""
    lowered = name.lower()
    return any(lowered.endswith(suffix) for suffix in MODEL_SUFFIXES) or (
        lowered.endswith(".bin") and ("model" in lowered or lowered.startswith("optimizer"))
    )

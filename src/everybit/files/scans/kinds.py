"""What a content is: by its bytes alone, and every format that it is at once."""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, Final

from everybit.files.scans.content import Kind
from everybit.files.scans.expanding import is_skipped_frame
from everybit.files.scans.names import is_pickled
from everybit.files.scans.pickle_start import acts_as_pickle, is_old_pickle

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.files.scans.content import Content
    from everybit.files.source import ByteSource

#: What is looked at from the start of a content.
HEAD_BYTES: Final = 1024
_TAIL_BYTES: Final = 65535 + 22
_MARKS: Final = (
    (b"PK\x03\x04", Kind.ZIP),
    (b"PK\x05\x06", Kind.ZIP),
    (b"ZF0x", Kind.ZFILE),
    (b"\x93NUMPY", Kind.NPY),
    (b"GGUF", Kind.GGUF),
    (b"\x89HDF\r\n\x1a\n", Kind.HDF5),
    (b"\x1f\x8b", Kind.GZIP),
    (b"BZh", Kind.BZIP2),
    (b"\xfd7zXZ\0", Kind.XZ),
    (b"\x28\xb5\x2f\xfd", Kind.ZSTD),
    (b"\x04\x22\x4d\x18", Kind.LZ4),
    (b"\x02\x21\x4c\x18", Kind.LZ4),
    (b"7z\xbc\xaf\x27\x1c", Kind.SEVEN_ZIP),
    (b"Rar!\x1a\x07", Kind.RAR),
    (b"\x7fELF", Kind.NATIVE),
    (b"\xcf\xfa\xed\xfe", Kind.NATIVE),
    (b"\xce\xfa\xed\xfe", Kind.NATIVE),
    (b"\xca\xfe\xba\xbe", Kind.NATIVE),
)
_ALL_MARKS: Final = tuple(mark for mark, _ in _MARKS)
_PICKLE: Final = Kind.PICKLE
_ONLY_PICKLE: Final = (Kind.PICKLE,)
_PICKLES: Final = (Kind.PICKLE, Kind.TORCH_LEGACY)
_TAR: Final = Kind.TAR
#: What may not be an archive at its end as well: one is told of by itself, nothing has no end.
_NO_FRONT: Final = (Kind.ZIP, Kind.EMPTY)
_TAR_HEADER: Final = 512
_END_OF_ZIP: Final = b"PK\x05\x06"
_LEGACY_MAGIC: Final = b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_BINARY_TEXT: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
#: A stream that gives nothing for so many bytes is taken for what it begins as.
_EMPTY_BYTES: Final = 1024 * 1024
_BLANK: Final = b"\xef\xbb\xbf \t\r\n"
_MAX_BLANK_BYTES: Final = 64 * 1024 * 1024
_MAX_SAFETENSORS_HEADER: Final = 100_000_000


def recognise(content: Content) -> tuple[Kind, ...]:
    """Return what a content is: the format that its first bytes say, then any other it is too.

    Loaders look at different ends of a file: torch at its start, Python's `zipfile` at its end,
    and a tar archive leaves room for a pickle before its first mark.
    """
    source = content.source
    head = source.read(0, HEAD_BYTES)
    if source.size == len(head) and is_only_pickle(head):
        return _ONLY_PICKLE
    first = _by_head(head, source, content)
    if first is _PICKLE and source.size == len(head) < _TAR_HEADER and _END_OF_ZIP not in head:
        return _ONLY_PICKLE  # of the old protocols
    kinds = [first]
    if first is not _TAR and _is_tar(head):
        kinds.append(Kind.TAR)
    if first not in _PICKLES and acts_as_pickle(source, head):
        kinds.append(Kind.PICKLE)
    if first not in _NO_FRONT and _ends_as_zip(source, first):
        kinds.append(Kind.ZIP)
    if len(kinds) > 1 and Kind.ZIP in kinds[1:] and first in (Kind.OTHER, Kind.TEXT, Kind.HTML):
        kinds.remove(first)
    return tuple(kinds)


def is_only_pickle(data: bytes) -> bool:
    """Return whether a whole content begins as a pickle, and is too short to be more than one.

    Nothing else begins so, or fits in; pickles of the old protocols have no mark.
    """
    return (
        len(data) < _TAR_HEADER
        and data[:1] == b"\x80"
        and data[1:2] <= b"\x05"
        and _LEGACY_MAGIC not in data
        and _END_OF_ZIP not in data
    )


def _by_head(head: bytes, source: ByteSource, content: Content) -> Kind:
    if not head:
        return Kind.EMPTY
    if head[0] == 0x80 and head[1:2] <= b"\x05":  # no mark begins like that
        return Kind.TORCH_LEGACY if _LEGACY_MAGIC in head[:24] else _PICKLE
    if head.startswith(_ALL_MARKS):
        return next(kind for mark, kind in _MARKS if head.startswith(mark))
    if is_skipped_frame(head):
        return Kind.ZSTD  # or lz4, which is seen where the frame ends
    if head[:2] == b"MZ" and b"PE\0\0" in head:
        return Kind.NATIVE
    if _is_tar(head):
        return Kind.TAR
    if _is_safetensors(head):
        return Kind.SAFETENSORS
    meant = content.by_law or is_pickled(content.name)
    if is_old_pickle(source, head, meant=meant, keep=content.keep):
        return Kind.PICKLE
    if _is_lzma(head, source):
        return Kind.LZMA
    if _is_zlib(head, source):
        return Kind.ZLIB
    if content.by_law:
        return Kind.PICKLE
    text = _text(head, source)
    if text is not None:
        return text
    if _may_be_protobuf(head):
        from everybit.files.scans.onnx import is_onnx

        if is_onnx(source):
            return Kind.ONNX
    return Kind.OTHER


def _is_tar(head: bytes) -> bool:
    # Every header carries a checksum of itself in octal digits; most others do not there.
    if len(head) < _TAR_HEADER or not head[0]:
        return False
    if head[257:262] != b"ustar" and not head[148:156].strip(b" \0").isdigit():
        return False
    from everybit.files.tar import is_tar_header

    return is_tar_header(head[:_TAR_HEADER])


def _is_safetensors(head: bytes) -> bool:
    length = int.from_bytes(head[:8], "little")
    return 2 <= length <= _MAX_SAFETENSORS_HEADER and head[8:9] == b"{"


def _is_lzma(head: bytes, source: ByteSource) -> bool:
    if head[:2] != b"\x5d\0":
        return False
    import lzma

    stream = lzma.LZMADecompressor(lzma.FORMAT_ALONE, memlimit=256 * 1024 * 1024)
    return _gives_bytes(stream.decompress, source, lzma.LZMAError) is not False


def _is_zlib(head: bytes, source: ByteSource) -> bool:
    if len(head) < 2 or head[0] != 0x78 or int.from_bytes(head[:2], "big") % 31:
        return False
    return bool(_gives_bytes(zlib.decompressobj().decompress, source, zlib.error))


def _gives_bytes(
    feed: Callable[[bytes, int], bytes], source: ByteSource, error: type[Exception]
) -> bool | None:
    """Return whether a stream gives bytes; it may begin with any number of empty blocks.

    None where it ends before it gives any.
    """
    try:
        for start in range(0, min(source.size, _EMPTY_BYTES), HEAD_BYTES):
            if feed(source.read(start, HEAD_BYTES), 64):
                return True
    except (error, EOFError):
        return False
    return True if source.size > _EMPTY_BYTES else None


def _text(head: bytes, source: ByteSource) -> Kind | None:
    if _BINARY_TEXT.search(head):
        return None
    if head.startswith(b"version https://git-lfs"):
        return Kind.LFS_POINTER
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:
            return None
    start = head.lstrip(_BLANK).lower()
    if not start:
        start = _first_letters(source)
    if start.startswith((b"<!doctype html", b"<html", b"<head")):
        return Kind.HTML
    if start[:2] in (b"{{", b"{%", b"{#"):
        return Kind.TEXT  # a template
    return Kind.JSON if start[:1] in (b"{", b"[") else Kind.TEXT


def _first_letters(source: ByteSource) -> bytes:
    """Return what a text begins with that has more blanks before it than are looked at first."""
    for chunk in source.chunks(0, min(source.size, _MAX_BLANK_BYTES)):
        start = bytes(chunk).lstrip(_BLANK)
        if start:
            return start[:HEAD_BYTES].lower()
    return b""


def _may_be_protobuf(head: bytes) -> bool:
    """Return whether the first byte is the key of a field that an ONNX model has."""
    return head[:1] in (b"\x08", b"\x12", b"\x1a", b"\x22", b"\x28", b"\x32", b"\x3a", b"\x42") or (
        head[:2] in (b"\x72\x00", b"\xa2\x01", b"\xca\x01") or head[:1] == b"\x72"
    )


def _ends_as_zip(source: ByteSource, first: Kind) -> bool:
    """Return whether an archive's end record, with a directory before it, ends the bytes."""
    tail = source.read(max(0, source.size - _TAIL_BYTES), _TAIL_BYTES)
    at = tail.rfind(_END_OF_ZIP)
    if at < 0 or len(tail) - at < 22:
        return False
    comment = int.from_bytes(tail[at + 20 : at + 22], "little")
    if first is Kind.TAR and at + 22 + comment != len(tail):
        return False  # the last member may be an archive; zeros follow it
    size = int.from_bytes(tail[at + 12 : at + 16], "little")
    count = int.from_bytes(tail[at + 10 : at + 12], "little")
    end = max(0, source.size - _TAIL_BYTES) + at
    if at >= 20 and tail[at - 20 : at - 16] == b"PK\x06\x07":
        end -= 20 + 56  # the two records of ZIP64
    return count > 0 and (size >= 0xFFFFFFFF or source.read(end - size, 4) == b"PK\x01\x02")

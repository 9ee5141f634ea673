"""What a file that is no model is, and what to do about it, said so that one can act on it."""

from __future__ import annotations

import bz2
import json
import lzma
import re
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from everybit.files.damage import MalformedError
from everybit.files.sniff import sniff_head
from everybit.files.tar import read_tar
from everybit.files.tensor import FileFormat
from everybit.files.zips.archive import read_archive

if TYPE_CHECKING:
    from everybit.files.source import ByteSource

_TEXT_BYTES: Final = 16 * 1024
_PACKED_BYTES: Final = 64 * 1024
_MAX_LISTED: Final = 1000
_ZEROS_BYTES: Final = 1024 * 1024
#: Endings under which archives hold models.
_MODEL_SUFFIXES: Final = (".safetensors", ".pt", ".pth", ".ckpt", ".bin", ".gguf", ".onnx", ".h5")
_TITLE: Final = re.compile(r"<title[^>]*>([^<]{1,200})", re.I)
_CODE: Final = re.compile(r"<code>([^<]{1,80})</code>", re.I)
_MESSAGES: Final = ("error", "message", "detail", "error_description", "errors", "title")
_COMPRESSIONS: Final = {
    b"\x1f\x8b": ("gzip", "gunzip"),
    b"BZh": ("bzip2", "bunzip2"),
    b"\xfd7zXZ\0": ("xz", "unxz"),
    b"\x28\xb5\x2f\xfd": ("zstd", "unzstd"),
    b"\x04\x22\x4d\x18": ("lz4", "unlz4"),
    b"\x02\x21\x4c\x18": ("lz4", "unlz4"),
    b"7z\xbc\xaf\x27\x1c": ("7-Zip", "7z x"),
    b"Rar!": ("RAR", "unrar x"),
}
_NAMES: Final = {
    FileFormat.SAFETENSORS: "a safetensors file",
    FileFormat.TORCH_ZIP: "a torch file",
    FileFormat.TORCH_LEGACY: "a torch file of the format before 1.6",
    FileFormat.TORCH_TAR: "a torch file of the first format",
    FileFormat.DISTCP: "a file of a DCP checkpoint",
    FileFormat.NPY: "a NumPy array",
    FileFormat.NPZ: "an archive of NumPy arrays",
    FileFormat.TOKENS: "a file of token ids",
    FileFormat.GGUF: "a GGUF file",
    FileFormat.HDF5: "an HDF5 file",
    FileFormat.PICKLE: "a pickle that torch did not write",
    FileFormat.ZIP: "a ZIP archive",
    FileFormat.TAR: "a tar archive",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a file is, as the end of a sentence about it, and what to do; empty where unknown."""

    what: str
    todo: str = ""


def name_of(kind: FileFormat) -> str:
    """Return a format for people: "a safetensors file"."""
    return _NAMES.get(kind, str(kind))


def describe(source: ByteSource, kind: FileFormat) -> Content:
    """Say what a file is that is none of the formats read here; what it holds, where that shows."""
    if kind is FileFormat.EMPTY:
        return Content(what="is empty", todo="the save or the copy was cut; fetch the file again")
    if kind is FileFormat.ZEROS:
        return _describe_zeros(source)
    if kind is FileFormat.LFS_POINTER:
        return Content(
            what="is a git-LFS pointer, not the file itself" + _lfs_size(source),
            todo="run `git lfs pull` where it was cloned",
        )
    if kind is FileFormat.HTML:
        return _describe_page(_text(source))
    if kind is FileFormat.TEXT:
        return _describe_text(_text(source))
    if kind is FileFormat.COMPRESSED:
        return _describe_packed(source)
    if kind is FileFormat.TAR:
        names = [member.name for member in read_tar(source, most=_MAX_LISTED)[0]]
        return Content(what=f"is a tar archive of {_list(names)}", todo="unpack it: tar -xf")
    if kind is FileFormat.ZIP:
        return _describe_zip(source)
    if kind in _NAMES:
        return Content(what=f"is {name_of(kind)}")
    return Content(what="")


def _describe_zeros(source: ByteSource) -> Content:
    head = source.read(0, _ZEROS_BYTES)
    tail = source.read(max(0, source.size - _ZEROS_BYTES), _ZEROS_BYTES)
    if head.strip(b"\0") or tail.strip(b"\0"):
        what = "holds zeros where a model starts"
    else:
        what = f"holds nothing but zeros ({source.size} bytes)"
    return Content(what=what, todo="the file was never written; fetch it again")


def _lfs_size(source: ByteSource) -> str:
    match = re.search(r"^size (\d{1,20})$", _text(source), re.M)
    return f" ({match.group(1)} bytes)" if match else ""


def _text(source: ByteSource) -> str:
    return source.read(0, _TEXT_BYTES).decode("utf-8", "replace")


def _describe_page(text: str) -> Content:
    code = _CODE.search(text)
    if code is not None and "<error" in text[:2000].lower():
        return Content(
            what=f"is an error message of an object store ({_clean(code.group(1))})",
            todo="fetch it again with the right key, name or permission",
        )
    title = _TITLE.search(text)
    named = f" ({_clean(title.group(1))})" if title else ""
    if text.lstrip("\ufeff \t\r\n")[:5].lower() == "<?xml" and title is None:
        return Content(what="is an XML document", todo="fetch the real file")
    return Content(
        what=f"is a web page{named}", todo="the download needed a login or another address"
    )


def _describe_text(text: str) -> Content:
    message = _error_in(text)
    if message:
        return Content(
            what=f"is an error message, not the file ({message})",
            todo="the download failed; fetch it again with the right login or address",
        )
    first = _clean(text.strip().split("\n", 1)[0])
    return Content(what=f"is text ({first!r})" if first else "is text", todo="name a model file")


def _error_in(text: str) -> str:
    """Return the message of a JSON error body, or ""."""
    if text.lstrip()[:1] != "{":
        return ""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    for key in _MESSAGES:
        value: Any = found.get(key) if isinstance(found, dict) else None
        if isinstance(value, dict):
            value = value.get("message") or value.get("code")
        if isinstance(value, str | int) and not isinstance(value, bool):
            return _clean(str(value))
    return ""


def _clean(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:80]


def _describe_packed(source: ByteSource) -> Content:
    head = source.read(0, _PACKED_BYTES)
    name, tool = next(
        (known for mark, known in _COMPRESSIONS.items() if head.startswith(mark)),
        ("zstd or lz4", "unzstd or unlz4"),  # it begins with a frame that both pass over
    )
    inside = _unpack(name, head)
    held = ""
    if inside:
        kind = sniff_head(inside)
        # The first bytes of a ZIP archive do not say whose it is, but its first member does.
        torch = kind is FileFormat.ZIP and b"/data.pkl" in inside
        kind = FileFormat.TORCH_ZIP if torch else kind
        held = f"; in it is {name_of(kind)}" if kind in _NAMES else ""
    return Content(what=f"is compressed by {name}{held}", todo=f"unpack it: {tool}")


def _unpack(name: str, data: bytes) -> bytes:
    """Return the first bytes of what is compressed; empty where they cannot be had."""
    try:
        if name == "gzip":
            return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(data, 512)
        if name == "bzip2":
            return bz2.BZ2Decompressor().decompress(data, 512)
        if name == "xz":
            return lzma.LZMADecompressor(memlimit=1 << 27).decompress(data, 512)
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError):
        pass
    return b""


def _describe_zip(source: ByteSource) -> Content:
    try:
        names = [member.name for member in read_archive(source).members]
    except MalformedError:
        return Content(what="is a ZIP archive")
    models = [name for name in names if name.lower().endswith(_MODEL_SUFFIXES)]
    if not models:
        return Content(what="is a ZIP archive without a torch pickle record")
    return Content(what=f"is a ZIP archive of {_list(models)}", todo="unpack it: unzip")


def _list(names: list[str]) -> str:
    if not names:
        return "no files"
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return ", ".join(_clean(name) for name in names[:2]) + more

"""Compressed streams, read in bounded pieces and never past what they may grow to."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final, Protocol

from everybit.files.scans.content import Kind
from everybit.files.scans.walk import FREE_BYTES, MAX_RATIO

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.files.scans.walk import Walk
    from everybit.files.source import ByteSource

_PIECE_BYTES: Final = 256 * 1024
_MEMORY_BYTES: Final = 512 * 1024 * 1024
_MARK_BYTES: Final = 6
#: What joblib before 0.10 wrote before a zlib stream: a mark and a length in hexadecimal.
ZFILE_HEAD_BYTES: Final = 21
#: Finer and finer, what came before the error in a damaged stream is fetched after all.
_LAST_STEPS: Final = (4096, 256, 16, 1)
#: What a further stream after the first one begins with, where formats allow several.
_MARKS: Final = {
    Kind.GZIP: b"\x1f\x8b",
    Kind.BZIP2: b"BZh",
    Kind.XZ: b"\xfd7zXZ",
    Kind.ZSTD: b"\x28\xb5\x2f\xfd",
    Kind.LZ4: b"\x04\x22\x4d\x18",
}
#: A frame of zstd or lz4 that decompressors pass over: a byte from 0x50 to 0x5f, then these.
_SKIPPED: Final = b"\x2a\x4d\x18"


class ExpandError(Exception):
    """A stream cannot be read to its end; the message is a clause that says why."""


class BombError(ExpandError):
    """A stream grows beyond what it may."""


class NoLibraryError(ExpandError):
    """The library that reads such streams is not installed."""


class _CutError(Exception):
    """A stream failed; what it gave before is kept."""

    def __init__(self, given: bytes, why: str) -> None:
        self.given = given
        super().__init__(why)


class _Stream(Protocol):
    """What the decompressors of the standard library share."""

    @property
    def eof(self) -> bool:
        """Whether the stream's own end was reached."""
        ...

    def feed(self, data: bytes, limit: int) -> tuple[bytes, bytes]:
        """Return up to `limit` bytes of output, and the input that is still to be fed."""
        ...

    @property
    def unused(self) -> bytes:
        """What followed the stream's end."""
        ...


class _Zlib:
    """Deflate with one of its three headers."""

    def __init__(self, bits: int) -> None:
        self._stream = zlib.decompressobj(bits)

    @property
    def eof(self) -> bool:
        return self._stream.eof

    def feed(self, data: bytes, limit: int) -> tuple[bytes, bytes]:
        before = self._stream.copy()
        try:
            return self._stream.decompress(data, limit), self._stream.unconsumed_tail
        except zlib.error as error:
            raise _CutError(self._before_error(before, data), str(error)) from None

    def _before_error(self, stream: Any, data: bytes) -> bytes:
        """Return what a stream gives before it fails, as a loader that reads on demand gets it."""
        found = b""
        for limit in _LAST_STEPS:
            while data:
                before = stream.copy()
                try:
                    piece = stream.decompress(data, limit)
                except zlib.error:
                    stream = before
                    break
                found += piece
                data = stream.unconsumed_tail
        return found

    @property
    def unused(self) -> bytes:
        return self._stream.unused_data


class _Buffered:
    """A decompressor that keeps the input it could not use yet (bz2, lzma, zstd of Python 3.14)."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    @property
    def eof(self) -> bool:
        return bool(self._stream.eof)

    def feed(self, data: bytes, limit: int) -> tuple[bytes, bytes]:
        piece = self._stream.decompress(data, limit)
        # It must be asked again, with nothing, while it holds input back.
        more = not self._stream.eof and not self._stream.needs_input
        return piece, b"" if not more else _AGAIN

    @property
    def unused(self) -> bytes:
        return bytes(self._stream.unused_data)


class _Whole:
    """A decompressor with no bound on its output a call; fed so little that it stays small.

    At first it is fed byte by byte: what it gives before it finds damage is then kept, as a loader
    gets it that reads on demand. A payload is short, and so is all of such a stream.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._num_fed = 0
        self._rest = b""

    @property
    def eof(self) -> bool:
        return bool(self._stream.eof)

    def feed(self, data: bytes, limit: int) -> tuple[bytes, bytes]:
        size = 1 if self._num_fed < _SIP_BYTES else _SIP_BYTES
        self._num_fed += size
        self._rest = data[size:]
        return self._stream.decompress(data[:size]), self._rest

    @property
    def unused(self) -> bytes:
        return bytes(self._stream.unused_data or b"") + self._rest


class _Again(bytes):
    """No input, and yet there is more output."""


_AGAIN: Final = _Again()
_SIP_BYTES: Final = 4096


def _open(kind: Kind) -> _Stream:
    if kind is Kind.GZIP:
        return _Zlib(16 + zlib.MAX_WBITS)
    if kind in (Kind.ZLIB, Kind.ZFILE):
        return _Zlib(zlib.MAX_WBITS)
    if kind is Kind.BZIP2:
        import bz2

        return _Buffered(bz2.BZ2Decompressor())
    if kind in (Kind.XZ, Kind.LZMA):
        import lzma

        form = lzma.FORMAT_XZ if kind is Kind.XZ else lzma.FORMAT_ALONE
        return _Buffered(lzma.LZMADecompressor(form, memlimit=_MEMORY_BYTES))
    if kind is Kind.ZSTD:
        return _open_zstd()
    if kind is Kind.LZ4:
        try:
            import lz4.frame
        except ImportError:
            raise NoLibraryError("it is lz4, and the package lz4 is not installed") from None
        return _Whole(lz4.frame.LZ4FrameDecompressor())
    raise ExpandError(f"{kind} is no stream that can be read")


def _open_zstd() -> _Stream:
    try:
        from compression import zstd
    except ImportError:
        pass
    else:
        return _Buffered(zstd.ZstdDecompressor())
    try:
        import zstandard
    except ImportError:
        what = "it is zstd, and the package zstandard is not installed"
        raise NoLibraryError(what) from None
    limit = zstandard.ZstdDecompressor(max_window_size=_MEMORY_BYTES)
    return _Whole(limit.decompressobj())


def expand(
    source: ByteSource,
    start: int,
    end: int,
    kind: Kind,
    walk: Walk | None,
    *,
    raw: bool = False,
) -> Iterator[bytes]:
    """Yield what a compressed stream holds, and all streams that follow it end to end.

    Args:
        source: The file.
        start: Where the stream begins.
        end: Where it ends at the latest.
        kind: How it is compressed.
        walk: Its budget is used up; where None, only the first piece is wanted.
        raw: Deflate with no header, as in a ZIP archive.

    Raises:
        BombError: It grows beyond its budget.
        NoLibraryError: Nothing is installed that reads it.
        ExpandError: It is damaged or cut.
    """
    stream: _Stream | None = _Zlib(-zlib.MAX_WBITS) if raw else _open(kind)
    packed = grown = 0
    carried = b""
    try:
        for chunk in source.chunks(start, end, size=_PIECE_BYTES):
            pending: bytes = carried + bytes(chunk)
            carried = b""
            packed += len(chunk)
            while pending or pending is _AGAIN:
                if stream is None:
                    pending = pending.lstrip(b"\0")
                    if len(pending) < _MARK_BYTES:
                        carried = pending
                        break
                    further = _next_kind(kind, pending)
                    if further is None:
                        return
                    kind = further
                    stream = _open(kind)
                piece, pending = stream.feed(pending, _PIECE_BYTES)
                grown += len(piece)
                if walk is not None:
                    _bound(walk, len(piece), grown, packed)
                if piece:
                    yield piece
                if stream.eof:
                    pending = stream.unused
                    stream = None
                    if raw:
                        return
    except _CutError as error:
        yield error.given
        raise ExpandError(f"its {kind} stream is damaged ({error})") from None
    except (zlib.error, OSError, EOFError, ValueError, RuntimeError) as error:
        raise ExpandError(f"its {kind} stream is damaged ({error})") from None
    except Exception as error:
        if type(error).__name__ in ("LZMAError", "ZstdError"):
            raise ExpandError(f"its {kind} stream is damaged ({error})") from None
        raise
    if stream is not None:
        raise ExpandError(f"its {kind} stream ends too early")


def is_skipped_frame(head: bytes) -> bool:
    """Return whether a frame begins that decompressors of zstd and lz4 pass over."""
    return b"P" <= head[:1] <= b"_" and head[1:4] == _SKIPPED


def _next_kind(kind: Kind, data: bytes) -> Kind | None:
    """Return what a further stream is that begins here, None where none does.

    A frame to be skipped may stand before either of zstd and lz4, and says of itself neither.
    """
    if kind not in (Kind.ZSTD, Kind.LZ4):
        return kind if data.startswith(_MARKS.get(kind, b"\0")) else None
    if is_skipped_frame(data):
        return kind
    return next((each for each in (Kind.ZSTD, Kind.LZ4) if data.startswith(_MARKS[each])), None)


def _bound(walk: Walk, num_bytes: int, grown: int, packed: int) -> None:
    walk.bytes_left -= num_bytes
    if grown > FREE_BYTES and grown > MAX_RATIO * packed:
        raise BombError(f"it grows more than {MAX_RATIO} times")
    if walk.bytes_left < 0:
        raise BombError("what its streams hold together is more than may be expanded")


def expand_head(
    source: ByteSource, start: int, end: int, kind: Kind, num_bytes: int, *, raw: bool = False
) -> bytes:
    """Return the first bytes that a compressed stream holds; fewer where it is damaged."""
    head = b""
    try:
        for piece in expand(source, start, end, kind, None, raw=raw):
            head += piece
            if len(head) >= num_bytes:
                break
    except ExpandError:
        pass
    return head[:num_bytes]

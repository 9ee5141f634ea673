"""One pass over a file's bytes: leaf digests, leaf CRCs, BLAKE3, tensors and members at once."""

from __future__ import annotations

import bisect
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

import xxhash

from everybit.core.digest import Algorithm, Digest
from everybit.core.tree import LEAF_BYTES, TreeHasher
from everybit.files import crc32
from everybit.files.blocks import in_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future

    from everybit.files.source import ByteSource


#: Bytes handed to a second thread at once: large enough that handing over costs nothing.
_HANDED_BYTES: Final = 32 * LEAF_BYTES


def no_progress(num_bytes: int) -> None:
    """Tell nobody that `num_bytes` more were read."""


@dataclass(slots=True, kw_only=True)
class LeafPass:
    """Leaf digests of a file, and BLAKE3 where it was asked for.

    Attributes:
        leaves: XXH3-128 of each 64 KiB leaf, 16 bytes each.
        num_bytes: How many bytes there were.
        blake3: Digest of all of them.
    """

    leaves: bytes
    num_bytes: int
    blake3: Digest | None = None


def read_leaves(
    source: ByteSource,
    *,
    strong: bool = False,
    progress: Callable[[int], None] = no_progress,
) -> LeafPass:
    """Read a file once for its leaf digests, and for BLAKE3 where `strong`."""
    source.advise_sequential()
    if strong:
        return _read_strong(source, progress)
    leaves, num_bytes = bytearray(), 0
    for block, length in in_blocks(source, 0, source.size, _leaves_of):
        leaves += block
        num_bytes += length
        progress(length)
    return LeafPass(leaves=bytes(leaves), num_bytes=num_bytes)


def _leaves_of(chunks: Iterable[memoryview]) -> bytes:
    leaves = bytearray()
    digest = xxhash.xxh3_128_digest
    for chunk in chunks:
        for start in range(0, len(chunk), LEAF_BYTES):
            leaves += digest(chunk[start : start + LEAF_BYTES])
    return bytes(leaves)


def _read_strong(source: ByteSource, progress: Callable[[int], None]) -> LeafPass:
    leaves, num_bytes = bytearray(), 0
    with _Aside() as aside:
        for chunk in source.chunks(size=_HANDED_BYTES):
            aside.update(chunk)
            leaves += _leaves_of((chunk,))
            num_bytes += len(chunk)
            aside.wait()
            progress(len(chunk))
        digest = aside.digest()
    return LeafPass(leaves=bytes(leaves), num_bytes=num_bytes, blake3=digest)


class _Aside:
    """BLAKE3 on a second thread, over the same buffers; a context manager."""

    def __init__(self) -> None:
        import blake3

        self._hasher = blake3.blake3()
        self._pool = ThreadPoolExecutor(1)
        self._running: Future[Any] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def update(self, chunk: memoryview) -> None:
        """Start on a buffer, which must stay as it is until `wait`."""
        self._running = self._pool.submit(self._hasher.update, chunk)

    def wait(self) -> None:
        """Return when the buffer is done with."""
        if self._running is not None:
            self._running.result()

    def digest(self) -> Digest:
        return Digest(Algorithm.BLAKE3, self._hasher.hexdigest())


@dataclass(slots=True)
class Span:
    """A byte range whose digest or CRC is taken during a pass."""

    start: int
    end: int
    hasher: TreeHasher | None = None
    crc: int = 0


@dataclass(slots=True, kw_only=True)
class SealPass:
    """All that sealing needs, from one pass.

    Attributes:
        leaves: XXH3-128 of each leaf.
        crcs: CRC-32 of each leaf, little-endian.
        num_bytes: How many bytes there were.
        blake3: Digest of all of them.
    """

    leaves: bytearray = field(default_factory=bytearray)
    crcs: bytearray = field(default_factory=bytearray)
    num_bytes: int = 0
    blake3: Digest | None = None


def read_for_seal(
    source: ByteSource,
    hashed: Iterable[Span],
    checked: Iterable[Span],
    *,
    progress: Callable[[int], None] = no_progress,
) -> SealPass:
    """Read a file once for everything that a manifest records.

    Args:
        source: The file.
        hashed: Ranges whose `hasher` gets their bytes; they may overlap.
        checked: Disjoint ranges whose `crc` is computed.
        progress: Is told the bytes read, as they are.
    """
    result = SealPass()
    waiting = sorted(hashed, key=lambda span: -span.start)
    active: list[Span] = []
    members = sorted(checked, key=lambda span: span.start)
    starts = [span.start for span in members]
    position = 0
    source.advise_sequential()
    with _Aside() as aside:
        for chunk in source.chunks(size=_HANDED_BYTES):
            aside.update(chunk)
            end = position + len(chunk)
            while waiting and waiting[-1].start < end:
                active.append(waiting.pop())
            for span in active:
                piece = chunk[max(0, span.start - position) : max(0, span.end - position)]
                if span.hasher is not None and piece:
                    span.hasher.update(piece)
            active = [span for span in active if span.end > end]
            for start in range(0, len(chunk), LEAF_BYTES):
                leaf = chunk[start : start + LEAF_BYTES]
                result.leaves += xxhash.xxh3_128_digest(leaf)
                crc = zlib.crc32(leaf)
                result.crcs += crc.to_bytes(4, "little")
                _feed(members, starts, leaf, position + start, crc)
            position = end
            aside.wait()
            progress(len(chunk))
        result.blake3 = aside.digest()
    result.num_bytes = position
    return result


def _feed(members: list[Span], starts: list[int], leaf: memoryview, at: int, crc: int) -> None:
    """Carry one leaf's bytes into the CRCs of the members that they belong to."""
    end = at + len(leaf)
    index = max(0, bisect.bisect_right(starts, at) - 1)
    while index < len(members) and members[index].start < end:
        span = members[index]
        low, high = max(span.start, at), min(span.end, end)
        if low < high:
            whole = high - low == len(leaf)
            piece = crc if whole else zlib.crc32(leaf[low - at : high - at])
            span.crc = crc32.join(span.crc, piece, high - low)
        index += 1

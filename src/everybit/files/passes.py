"""One pass over a file's bytes: leaf digests, leaf CRCs, BLAKE3, tensors and members at once."""

from __future__ import annotations

import bisect
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import xxhash

from everybit.core.digest import Algorithm, Digest
from everybit.core.tree import LEAF_BYTES, TreeHasher
from everybit.files import crc32
from everybit.files.source import CHUNK_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from everybit.files.source import ByteSource


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
    leaves = bytearray()
    digest = xxhash.xxh3_128_digest
    hasher = _blake3() if strong else None
    num_bytes = 0
    source.advise_sequential()
    for chunk in source.chunks():
        if hasher is not None:
            hasher.update(chunk)
        for start in range(0, len(chunk), LEAF_BYTES):
            leaves += digest(chunk[start : start + LEAF_BYTES])
        num_bytes += len(chunk)
        progress(len(chunk))
    strong_digest = Digest(Algorithm.BLAKE3, hasher.hexdigest()) if hasher is not None else None
    return LeafPass(leaves=bytes(leaves), num_bytes=num_bytes, blake3=strong_digest)


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
    hasher = _blake3()
    waiting = sorted(hashed, key=lambda span: -span.start)
    active: list[Span] = []
    members = sorted(checked, key=lambda span: span.start)
    starts = [span.start for span in members]
    position = 0
    source.advise_sequential()
    for chunk in source.chunks(size=CHUNK_BYTES):
        end = position + len(chunk)
        hasher.update(chunk)
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
        progress(len(chunk))
    result.num_bytes = position
    result.blake3 = Digest(Algorithm.BLAKE3, hasher.hexdigest())
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


def _blake3() -> Any:
    import blake3

    return blake3.blake3(max_threads=blake3.blake3.AUTO)

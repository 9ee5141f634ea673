"""One pass over a file's bytes: leaf digests, leaf CRCs, BLAKE3, tensors and members at once."""

from __future__ import annotations

import bisect
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import xxhash
from isal import isal_zlib

from everybit.core.digest import Algorithm, Digest
from everybit.core.tree import LEAF_BYTES, TreeHasher
from everybit.files import crc32
from everybit.files.aside import Hasher, hash_file, new_hasher, read_hashed
from everybit.files.blocks import in_blocks
from everybit.files.mapped import MappedHash, can_map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from everybit.files.source import ByteSource

#: Older releases of isal have no function of their own for this.
_join: Final[Callable[[int, int, int], int]] = getattr(isal_zlib, "crc32_combine", crc32.join)


def no_progress(num_bytes: int) -> None:
    """Tell nobody that `num_bytes` more were read."""


@dataclass(slots=True, kw_only=True)
class LeafPass:
    """Leaf digests of a file.

    Attributes:
        leaves: XXH3-128 of each 64 KiB leaf, 16 bytes each.
        num_bytes: How many bytes there were.
    """

    leaves: bytes
    num_bytes: int


def read_leaves(source: ByteSource, *, progress: Callable[[int], None] = no_progress) -> LeafPass:
    """Read a file once for its leaf digests."""
    source.advise_sequential()
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


def read_blake3(source: ByteSource, *, progress: Callable[[int], None] = no_progress) -> Digest:
    """Read a file once for its BLAKE3 digest."""
    return Digest(Algorithm.BLAKE3, hash_file(source, ("blake3",), progress)["blake3"])


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
        sha256: Digest of all of them, where it was asked for.
    """

    leaves: bytearray
    crcs: bytearray
    num_bytes: int
    blake3: Digest
    sha256: Digest | None = None


def read_for_seal(
    source: ByteSource,
    hashed: Iterable[Span],
    checked: Iterable[Span],
    *,
    sha256: bool = False,
    progress: Callable[[int], None] = no_progress,
) -> SealPass:
    """Read a file once for everything that a manifest records.

    Args:
        source: The file.
        hashed: Ranges whose `hasher` gets their bytes; they may overlap.
        checked: Disjoint ranges whose `crc` is computed.
        sha256: Compute SHA-256 as well.
        progress: Is told the bytes read, as they are.
    """
    with contextlib.ExitStack() as stack:
        mapped: MappedHash | None = None
        if can_map(source):
            mapped = stack.enter_context(MappedHash(source, no_progress))
        names = [*([] if mapped else ["blake3"]), *(["sha256"] if sha256 else [])]
        aside = {name: new_hasher(name) for name in names}
        leaves, crcs, num_bytes = _read_looked_at(
            source, list(aside.values()), hashed, checked, progress
        )
        digest = mapped.digest() if mapped is not None else aside["blake3"].hexdigest()
    return SealPass(
        leaves=leaves,
        crcs=crcs,
        num_bytes=num_bytes,
        blake3=read_blake3(source) if digest is None else Digest(Algorithm.BLAKE3, digest),
        sha256=Digest(Algorithm.SHA256, aside["sha256"].hexdigest()) if sha256 else None,
    )


def _read_looked_at(
    source: ByteSource,
    aside: list[Hasher],
    hashed: Iterable[Span],
    checked: Iterable[Span],
    progress: Callable[[int], None],
) -> tuple[bytearray, bytearray, int]:
    """Read a file once, through the hashers aside; return `leaves`, `crcs`, `num_bytes`."""
    leaves, crcs = bytearray(), bytearray()
    waiting = sorted(hashed, key=lambda span: -span.start)
    active: list[Span] = []
    members = sorted(checked, key=lambda span: span.start)
    starts = [span.start for span in members]
    position = 0
    digest, crc_of = xxhash.xxh3_128_digest, isal_zlib.crc32
    for chunk in read_hashed(source, aside):
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
            leaves += digest(leaf)
            crc = crc_of(leaf)
            crcs += crc.to_bytes(4, "little")
            if members:
                _feed(members, starts, leaf, position + start, crc)
        position = end
        progress(len(chunk))
    return leaves, crcs, position


def _feed(members: list[Span], starts: list[int], leaf: memoryview, at: int, crc: int) -> None:
    """Carry one leaf's bytes into the CRCs of the members that they belong to."""
    end = at + len(leaf)
    index = max(0, bisect.bisect_right(starts, at) - 1)
    while index < len(members) and members[index].start < end:
        span = members[index]
        low, high = max(span.start, at), min(span.end, end)
        if low < high:
            whole = high - low == len(leaf)
            piece = crc if whole else isal_zlib.crc32(leaf[low - at : high - at])
            span.crc = _join(span.crc, piece, high - low)
        index += 1

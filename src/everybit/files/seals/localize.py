"""Where a sealed file's bytes differ: to the bit where CRC and digest prove it, else by leaf."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import xxhash

from everybit.core.tree import LEAF_BYTES, LEAF_DIGEST_BYTES
from everybit.files import crc32

if TYPE_CHECKING:
    from everybit.files.seals.manifest import SealedFile
    from everybit.files.source import ByteSource

#: Leaves in which damage of a whole word is searched for (a tenth of a second each).
_MAX_SEARCHED: Final = 8
#: Leaves in which a single flipped bit is searched for (a millisecond each).
_MAX_LOCATED: Final = 1000
_PAGE: Final = bytes(4096)


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """How a file departs from its seal, over the bytes that both have.

    Attributes:
        right: `{file offset: byte that should be there}` for what is proven to the byte.
        ranges: Leaves that differ in a way that is not known more closely, joined, sorted.
        num_leaves: How many leaves differ.
    """

    right: dict[int, int]
    ranges: tuple[tuple[int, int], ...]
    num_leaves: int

    def all_ranges(self) -> list[tuple[int, int]]:
        """Return all differing ranges, exact and by leaf, sorted and joined."""
        exact = [(offset, offset + 1) for offset in self.right]
        return join_ranges([*exact, *self.ranges])


def join_ranges(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges sorted, with touching ones joined.

    >>> join_ranges([(4, 6), (0, 2), (2, 3)])
    [(0, 3), (4, 6)]
    """
    joined: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def find_differences(source: ByteSource, sealed: SealedFile, leaves: bytes) -> Differences:
    """Compare leaf by leaf, then look into the leaves that differ.

    Args:
        source: The file as it is now.
        sealed: Its entry in the manifest.
        leaves: Its leaf digests as it is now.
    """
    num_common = min(source.size, sealed.size_bytes) // LEAF_BYTES
    if source.size == sealed.size_bytes:
        num_common = len(sealed.leaves) // LEAF_DIGEST_BYTES
    bad = [
        index
        for index in range(num_common)
        if leaves[index * LEAF_DIGEST_BYTES : (index + 1) * LEAF_DIGEST_BYTES]
        != sealed.leaf_digest(index)
    ]
    right: dict[int, int] = {}
    ranges: list[tuple[int, int]] = []
    # Where many leaves differ the damage is wider than a word, and the search would be idle.
    steps: tuple[int, ...] = ()
    if len(bad) <= _MAX_SEARCHED:
        steps = (crc32.BURST_BYTES, 1) if len(bad) == 1 else (crc32.BURST_BYTES,)
    apart = {index for index in bad if not {index - 1, index + 1} & set(bad[:_MAX_SEARCHED])}
    for count, index in enumerate(bad):
        start = index * LEAF_BYTES
        length = min(LEAF_BYTES, sealed.size_bytes - start)
        found = None
        if count < _MAX_LOCATED:
            data = bytearray(source.read(start, length))
            wanted = (sealed.leaf_crc(index), sealed.leaf_digest(index))
            # A page of zeros is a lost write, unless zeros were sealed: one quick search for them.
            holed = len(steps) > 1 and _PAGE in data
            # Neighbours that differ are one wide damage.
            own = steps if index in apart else ()
            found = locate(data, *wanted, steps=own[:1] if holed else own)
        if found is None:
            ranges.append((start, start + length))
        else:
            right.update({start + offset: byte for offset, byte in found.items()})
    return Differences(right=right, ranges=tuple(join_ranges(ranges)), num_leaves=len(bad))


def locate(
    data: bytearray, crc: int, digest: bytes, *, steps: tuple[int, ...] = (crc32.BURST_BYTES, 1)
) -> dict[int, int] | None:
    """Find the one flipped bit, or the one damaged window of four bytes, in a leaf.

    The CRC gives candidates, the digest of the leaf put right proves one.

    Args:
        data: The leaf as it is now; left as it was.
        crc: Its CRC-32 as sealed.
        digest: Its XXH3-128 as sealed.
        steps: Distances of the windows to search for damage wider than a bit.

    Returns:
        `{offset: byte that should be there}`, or None where the damage is larger.
    """
    syndrome = crc ^ zlib.crc32(data)
    flip = crc32.flipped_bit(syndrome, len(data))
    if flip is not None:
        mask = bytes([1 << flip[1]])
        if _proves(data, flip[0], mask, digest):
            return {flip[0]: data[flip[0]] ^ mask[0]}
    if not syndrome or len(data) < crc32.BURST_BYTES:
        return None
    for step in steps:
        found = _search(data, syndrome, digest, step)
        if found is not None:
            return found
    return None


def _search(data: bytearray, syndrome: int, digest: bytes, step: int) -> dict[int, int] | None:
    """Try the one mask that each window could have, until the digest proves it."""
    width = crc32.BURST_BYTES
    hashed = xxhash.xxh3_128_digest
    for offset, mask in crc32.bursts(syndrome, len(data), step=step):
        held = data[offset : offset + width]
        right = (int.from_bytes(held, "little") ^ mask).to_bytes(width, "little")
        data[offset : offset + width] = right
        proven = hashed(data) == digest
        data[offset : offset + width] = held
        if proven:
            return {offset + place: byte for place, byte in enumerate(right) if byte != held[place]}
    return None


def _proves(data: bytearray, offset: int, mask: bytes, digest: bytes) -> bool:
    held = data[offset : offset + len(mask)]
    data[offset : offset + len(mask)] = bytes(a ^ b for a, b in zip(held, mask, strict=True))
    proven = xxhash.xxh3_128_digest(data) == digest
    data[offset : offset + len(mask)] = held
    return proven

r"""The `tree` digest: XXH3-128 over 64 KiB leaves, folded. For files, saves and manifests.

Definition, version 1. Let `data` be the canonical bytes (elements contiguous, little-endian) and
`header` be `tensor_header(dtype, shape)`; a plain file is a tensor of dtype `bytes` and shape
`(size,)`. The leaves are the XXH3-128 digests (seed 0, canonical big-endian form, 16 bytes) of
consecutive 64 KiB pieces of `data`, the last one shorter; empty data has no leaf. The digest is
XXH3-128 of

    b"everybit.tree/1\0" + header + b"\0" + len(data) as a little-endian 64-bit integer
    + all leaves in order

XXH3 is fast and not cryptographic: it sees accidents, not adversaries. BLAKE3 and signatures are
for those.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import xxhash

from everybit.core.digest import Algorithm, Digest, tensor_header

if TYPE_CHECKING:
    from typing_extensions import Buffer

LEAF_BYTES: Final = 64 * 1024
LEAF_DIGEST_BYTES: Final = 16


class TreeHasher:
    """Compute a `tree` digest over data that arrives in pieces; keeps the leaves.

    >>> hasher = TreeHasher()
    >>> hasher.update(b"abc")
    >>> hasher.digest("bytes", (3,)) == tree_digest("bytes", (3,), b"abc")
    True
    """

    def __init__(self) -> None:
        self._leaves = bytearray()
        self._partial = bytearray()
        self.num_bytes = 0

    def update(self, data: Buffer) -> None:
        """Add the next bytes (any contiguous buffer)."""
        view = memoryview(data).cast("B")
        self.num_bytes += len(view)
        start = 0
        if self._partial:
            start = min(LEAF_BYTES - len(self._partial), len(view))
            self._partial += view[:start]
            if len(self._partial) < LEAF_BYTES:
                return
            self._leaves += xxhash.xxh3_128_digest(self._partial)
            self._partial.clear()
        digest = xxhash.xxh3_128_digest
        whole = start + (len(view) - start) // LEAF_BYTES * LEAF_BYTES
        for begin in range(start, whole, LEAF_BYTES):
            self._leaves += digest(view[begin : begin + LEAF_BYTES])
        self._partial += view[whole:]

    def leaves(self) -> bytes:
        """Return the leaf digests so far, 16 bytes each, the unfinished leaf included."""
        tail = xxhash.xxh3_128_digest(self._partial) if self._partial else b""
        return bytes(self._leaves) + tail

    def digest(self, dtype: str, shape: tuple[int, ...]) -> Digest:
        """Return the digest of all data so far as a tensor of this dtype and shape."""
        return fold_leaves(dtype, shape, self.num_bytes, self.leaves())


def fold_leaves(dtype: str, shape: tuple[int, ...], num_bytes: int, leaves: bytes) -> Digest:
    """Return the digest that follows from the leaves.

    Args:
        dtype: Canonical dtype name, or `bytes` for a plain file.
        shape: Shape; `(num_bytes,)` for a plain file.
        num_bytes: Length of the canonical bytes.
        leaves: Leaf digests, 16 bytes each, in order.
    """
    expected = -(-num_bytes // LEAF_BYTES) * LEAF_DIGEST_BYTES
    if len(leaves) != expected:
        raise ValueError(f"{num_bytes} bytes have {expected} bytes of leaves, not {len(leaves)}")
    root = xxhash.xxh3_128()
    root.update(b"everybit.tree/1\0")
    root.update(tensor_header(dtype, shape))
    root.update(b"\0" + struct.pack("<Q", num_bytes))
    root.update(leaves)
    return Digest(Algorithm.TREE, root.hexdigest())


def tree_digest(dtype: str, shape: tuple[int, ...], data: Buffer) -> Digest:
    """Return the `tree` digest of canonical bytes held in memory."""
    hasher = TreeHasher()
    hasher.update(data)
    return hasher.digest(dtype, shape)

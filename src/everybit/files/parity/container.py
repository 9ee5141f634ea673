"""The parity file: blocks between two equal copies of its index, each with a digest.

    mark (16) | length (8) | digest of the index (16) | index | zeros up to a multiple of 4,096
    blocks, all of one size
    index | mark (16) | length (8) | digest of the index (16)

The index holds the geometry, the manifest as it was sealed, and the digest of every block. Numbers
are little-endian, digests XXH3-128. A flipped bit or a lost page costs a block at most, or one of
the two indices.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import xxhash

from everybit.core.tree import LEAF_BYTES, LEAF_DIGEST_BYTES
from everybit.files.damage import MalformedError, malformed
from everybit.files.parity.layout import Code, Layout, block_bytes_for, place_leaves
from everybit.files.seals.manifest import Manifest, decode_manifest

if TYPE_CHECKING:
    from everybit.files.source import ByteSource

SCHEMA: Final = "everybit.parity/1"
ENVELOPE: Final = struct.Struct("<16sQ16s")
ALIGNMENT: Final = 4096

_FRONT_MARK: Final = b"everybit.parity<"
_BACK_MARK: Final = b"everybit.parity>"
_LENGTH: Final = struct.Struct("<I")
_MAX_INDEX_BYTES: Final = 1 << 30
_MAX_HEAD_BYTES: Final = 4096
_MAX_BLOCKS: Final = 1 << 40
_WRONG: Final = (KeyError, TypeError, ValueError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """What the parity file says about itself.

    Attributes:
        id: Digest of the manifest in it.
        layout: The geometry.
        manifest: What the files held when they were sealed.
        digests: XXH3-128 of each block, 16 bytes each.
        blocks_start: Where the blocks start in the file.
        num_index_bytes: Length of one copy.
        whole_copies: How many of the two copies of the index hold.
    """

    id: str
    layout: Layout
    manifest: Manifest
    digests: bytes
    blocks_start: int
    num_index_bytes: int
    whole_copies: int = 2

    def block_digest(self, block: int) -> bytes:
        """Return the digest of one block."""
        return self.digests[block * LEAF_DIGEST_BYTES : (block + 1) * LEAF_DIGEST_BYTES]

    def block_start(self, block: int) -> int:
        """Return where a block lies in the file."""
        return self.blocks_start + block * self.layout.block_bytes

    @property
    def blocks_end(self) -> int:
        """Where the blocks end in the file."""
        return self.block_start(self.layout.num_blocks)


def id_of(manifest: bytes) -> str:
    """Return the id of a parity set from the manifest that it protects."""
    return f"xxh3-128:{xxhash.xxh3_128_hexdigest(manifest)}"


def encode_index(layout: Layout, manifest: bytes, digests: bytes) -> bytes:
    """Return the index's bytes; their length does not depend on the digests."""
    head = json.dumps(
        {
            "schema": SCHEMA,
            "code": str(layout.code),
            "stripes": layout.stripes,
            "data_per_stripe": layout.data_per_stripe,
            "parity_per_stripe": layout.parity_per_stripe,
            "leaf_bytes": LEAF_BYTES,
            "block_bytes": layout.block_bytes,
            "manifest_bytes": len(manifest),
        }
    ).encode("ascii")
    return _LENGTH.pack(len(head)) + head + manifest + digests


def blocks_start_for(index_bytes: int) -> int:
    """Return where blocks start behind an index of this length."""
    return -(-(ENVELOPE.size + index_bytes) // ALIGNMENT) * ALIGNMENT


def front_envelope(index: bytes) -> bytes:
    """Return what stands before the first copy of the index."""
    return ENVELOPE.pack(_FRONT_MARK, len(index), xxhash.xxh3_128_digest(index))


def back_envelope(index: bytes) -> bytes:
    """Return what stands behind the second copy of the index."""
    return ENVELOPE.pack(_BACK_MARK, len(index), xxhash.xxh3_128_digest(index))


def read_index(source: ByteSource) -> Index:
    """Read the index from the copy at the front, or from the one at the end.

    Raises:
        MalformedError: Neither copy holds (FIL110), or what it says cannot be.
    """
    front, back = _read_copies(source)
    raw = front if front is not None else back
    if raw is None:
        raise _broken("neither copy of its index holds")
    index = _decode(raw)
    both = front is not None and back == front
    return replace(index, whole_copies=2 if both else 1)


def read_raw_index(source: ByteSource) -> bytes | None:
    """Return the bytes of a copy of the index that holds; None where neither does."""
    front, back = _read_copies(source)
    return front if front is not None else back


def _read_copies(source: ByteSource) -> tuple[bytes | None, bytes | None]:
    front = _read_copy(source, 0, _FRONT_MARK)
    return front, _read_copy(source, source.size - ENVELOPE.size, _BACK_MARK)


def _read_copy(source: ByteSource, at: int, wanted: bytes) -> bytes | None:
    envelope = source.read(at, ENVELOPE.size) if at >= 0 else b""
    if len(envelope) < ENVELOPE.size:
        return None
    mark, length, digest = ENVELOPE.unpack(envelope)
    if mark != wanted or not 0 < length <= min(_MAX_INDEX_BYTES, source.size):
        return None
    start = at + ENVELOPE.size if wanted == _FRONT_MARK else at - length
    raw = source.read(start, length) if start >= 0 else b""
    return raw if len(raw) == length and xxhash.xxh3_128_digest(raw) == digest else None


def _broken(message: str) -> MalformedError:
    return malformed(f"the parity file does not hold: {message}", rule="FIL110")


def _decode(raw: bytes) -> Index:
    try:
        # The digest holds, so what follows guards against other releases and against malice.
        (length,) = _LENGTH.unpack_from(raw)
        if length > _MAX_HEAD_BYTES:
            raise ValueError("the length of its head")
        head = json.loads(raw[_LENGTH.size : _LENGTH.size + length])
        if head["schema"] != SCHEMA or head["leaf_bytes"] != LEAF_BYTES:
            raise _broken(f"its schema {str(head['schema'])[:40]!r} is not known to this release")
        at = _LENGTH.size + length
        size = _count(head["manifest_bytes"], len(raw))
        manifest_bytes = raw[at : at + size]
        manifest = decode_manifest(manifest_bytes)
        layout = _layout(head, manifest)
    except (struct.error, *_WRONG) as error:
        reason = " ".join(str(error).split())[:80] or type(error).__name__
        raise _broken(f"a field is missing or cannot be right ({reason})") from None
    digests = raw[at + size :]
    if len(digests) != layout.num_blocks * LEAF_DIGEST_BYTES:
        raise _broken("it does not have a digest for each block")
    return Index(
        id=id_of(manifest_bytes),
        layout=layout,
        manifest=manifest,
        digests=digests,
        blocks_start=blocks_start_for(len(raw)),
        num_index_bytes=len(raw),
    )


def _layout(head: dict[str, Any], manifest: Manifest) -> Layout:
    files = tuple(sorted((path, entry.size_bytes) for path, entry in manifest.files.items()))
    layout = Layout(
        files=files,
        code=Code(head["code"]),
        stripes=_count(head["stripes"], _MAX_BLOCKS),
        data_per_stripe=_count(head["data_per_stripe"], _MAX_BLOCKS),
        parity_per_stripe=_count(head["parity_per_stripe"], 32),
        block_bytes=_count(head["block_bytes"], LEAF_BYTES),
        first_leaves=place_leaves(files),
    )
    rows = -(-layout.num_leaves // layout.stripes) if layout.stripes else 0
    if rows != layout.data_per_stripe and (
        layout.code is Code.XOR or rows > layout.data_per_stripe
    ):
        raise ValueError("stripes and leaves")
    if layout.block_bytes != block_bytes_for(files):
        raise ValueError("block_bytes")
    if layout.code is Code.XOR and layout.parity_per_stripe != 1:
        raise ValueError("parity_per_stripe")
    if layout.code is Code.REED_SOLOMON and (
        layout.num_leaves and layout.data_per_stripe + layout.parity_per_stripe > 32
    ):
        raise ValueError("data_per_stripe")
    return layout


def _count(value: Any, limit: int) -> int:
    if type(value) is not int or not 0 <= value <= limit:
        raise ValueError("a number is out of range")
    return value

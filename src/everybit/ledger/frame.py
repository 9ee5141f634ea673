"""One frame of a log: a sync mark, a header with its own check, a payload, and a checksum over all.

Layout, all integers little-endian (`docs/ledger.md` has it byte by byte)::

    0   8  sync mark
    8   1  format version, 2 (1: before there were block sums in steps)
    9   1  kind
    10  2  flags: bit 0, the payload is zlib-compressed
    12  4  payload length
    16  8  sequence number, from 0 in each log
    24  8  log id, drawn at random for each log
    32 16  checksum of the frame before; of frame 0, the XXH3-128 of `run.json`
    48  8  XXH3-64 of bytes 0 to 48
    56  n  payload
    56+n 16  XXH3-128 of bytes 0 to 56+n

The header has a check of its own so that a length is never believed before it is proven, and so
that a frame that a kill cut short can be told from a damaged one.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, NamedTuple

import xxhash

SYNC: Final = b"\xebBIT\r\n\x1a\xf7"
FORMAT: Final = 2
#: Formats that are read: in 1 no step has block sums, all else is the same.
READ_FORMATS: Final = (1, 2)
HEADER_BYTES: Final = 56
CHECK_BYTES: Final = 16
OVERHEAD_BYTES: Final = HEADER_BYTES + CHECK_BYTES
#: No payload is longer, packed or unpacked: what a reader holds in memory at most.
MAX_PAYLOAD_BYTES: Final = 64 * 1024 * 1024
#: Flag: the payload is zlib-compressed.
ZLIB: Final = 1

_FIELDS: Final = struct.Struct("<8sBBHIQQ16s")
_FIELD_BYTES: Final = _FIELDS.size
_HEADER: Final = struct.Struct("<8sBBHIQQ16s8s")


class Kind(IntEnum):
    """What a frame holds. Readers pass over kinds they do not know."""

    HEADER = 1
    NAMES = 2
    STEP = 3
    TABLES = 4
    FINDING = 5
    OBSERVATION = 6
    COVERAGE = 7
    END = 8
    SAMPLES = 9


class Header(NamedTuple):
    """The fields of a frame before its payload; the header's own check held."""

    version: int
    kind: int
    flags: int
    length: int
    sequence: int
    log_id: int
    previous: bytes

    @property
    def frame_bytes(self) -> int:
        """Length of the whole frame."""
        return OVERHEAD_BYTES + self.length


def encode_frame(
    kind: int, payload: bytes, *, flags: int, sequence: int, log_id: int, previous: bytes
) -> bytes:
    """Return the bytes of one frame; its last `CHECK_BYTES` are its checksum.

    Raises:
        ValueError: The payload is longer than `MAX_PAYLOAD_BYTES`.
    """
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise ValueError(f"a payload of {len(payload)} bytes; {MAX_PAYLOAD_BYTES} at most")
    fields = _FIELDS.pack(SYNC, FORMAT, kind, flags, len(payload), sequence, log_id, previous)
    body = fields + xxhash.xxh3_64_digest(fields) + payload
    return body + xxhash.xxh3_128_digest(body)


def decode_header(data: bytes | memoryview) -> Header | None:
    """Read the first `HEADER_BYTES` of a frame; None where they are no header.

    A header of another format version is returned where its check holds: the caller decides.
    """
    mark, *fields, check = _HEADER.unpack(data)
    if mark != SYNC or xxhash.xxh3_64_digest(data[:_FIELD_BYTES]) != check:
        return None
    header = Header._make(fields)
    return header if header.length <= MAX_PAYLOAD_BYTES else None


def check_of(frame: bytes | memoryview) -> bytes:
    """Return the checksum that a frame carries in its last bytes."""
    return bytes(frame[-CHECK_BYTES:])


def is_intact(frame: bytes | memoryview) -> bool:
    """Whether a whole frame's checksum holds."""
    return xxhash.xxh3_128_digest(frame[:-CHECK_BYTES]) == check_of(frame)

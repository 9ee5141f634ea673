"""The records of a ZIP archive, parsed from bytes: central directory, local headers, end records.

Only what APPNOTE.TXT 6.3 defines and PyTorch's writer (miniz) uses. No record is trusted: lengths
are checked against what was read.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

END: Final = struct.Struct("<4s4H2IH")
END64: Final = struct.Struct("<4sQ2H2I4Q")
LOCATOR64: Final = struct.Struct("<4sIQI")
CENTRAL: Final = struct.Struct("<4s6H3I5H2I")
LOCAL: Final = struct.Struct("<4s5H3I2H")

END_MARK: Final = b"PK\x05\x06"
END64_MARK: Final = b"PK\x06\x06"
LOCATOR64_MARK: Final = b"PK\x06\x07"
CENTRAL_MARK: Final = b"PK\x01\x02"
LOCAL_MARK: Final = b"PK\x03\x04"
DESCRIPTOR_MARK: Final = b"PK\x07\x08"

STORED: Final = 0
DEFLATED: Final = 8

FLAG_ENCRYPTED: Final = 1
FLAG_DESCRIPTOR: Final = 8
_FLAG_UTF8: Final = 1 << 11
_SATURATED32: Final = 0xFFFFFFFF
_ZIP64_FIELD: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CentralEntry:
    """One entry of the central directory."""

    name: str
    raw_name: bytes
    flags: int
    method: int
    version_needed: int
    modified: tuple[int, int]
    crc: int
    compressed_size: int
    size: int
    disk: int
    header_offset: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalHeader:
    """The header before a member's data."""

    raw_name: bytes
    flags: int
    method: int
    version_needed: int
    modified: tuple[int, int]
    crc: int
    compressed_size: int
    size: int
    extra: bytes
    length: int


def parse_central(data: bytes, offset: int) -> CentralEntry | None:
    """Return the entry at `offset`, or None where there is none or it is cut."""
    if offset + CENTRAL.size > len(data):
        return None
    mark, _, needed, flags, method, time, date, crc, packed, size, n, m, k, disk, _, _, local = (
        CENTRAL.unpack_from(data, offset)
    )
    length = CENTRAL.size + n + m + k
    if mark != CENTRAL_MARK or offset + length > len(data):
        return None
    at = offset + CENTRAL.size
    raw_name, extra = data[at : at + n], data[at + n : at + n + m]
    wide = _zip64_values(extra)
    if size == _SATURATED32 and wide:
        size = wide.pop(0)
    if packed == _SATURATED32 and wide:
        packed = wide.pop(0)
    if local == _SATURATED32 and wide:
        local = wide.pop(0)
    return CentralEntry(
        name=decode_name(raw_name, flags),
        raw_name=raw_name,
        flags=flags,
        method=method,
        version_needed=needed,
        modified=(time, date),
        crc=crc,
        compressed_size=packed,
        size=size,
        disk=disk,
        header_offset=local,
        length=length,
    )


def parse_local(data: bytes) -> LocalHeader | None:
    """Return the local header at the start of `data`, or None where there is none or it is cut."""
    if len(data) < LOCAL.size:
        return None
    mark, needed, flags, method, time, date, crc, packed, size, n, m = LOCAL.unpack_from(data)
    length = LOCAL.size + n + m
    if mark != LOCAL_MARK or len(data) < length:
        return None
    extra = data[LOCAL.size + n : length]
    wide = _zip64_values(extra)
    if size == _SATURATED32 and wide:
        size = wide.pop(0)
    if packed == _SATURATED32 and wide:
        packed = wide.pop(0)
    return LocalHeader(
        raw_name=data[LOCAL.size : LOCAL.size + n],
        flags=flags,
        method=method,
        version_needed=needed,
        modified=(time, date),
        crc=crc,
        compressed_size=packed,
        size=size,
        extra=extra,
        length=length,
    )


def parse_descriptor(data: bytes, size: int) -> tuple[int, int, int] | None:
    """Return `(crc, size, length)` of the data descriptor at the start of `data`.

    The record has two widths and says nothing about which: the one that gives `size` is taken.
    """
    if data[:4] != DESCRIPTOR_MARK:
        return None
    for layout in (struct.Struct("<3I"), struct.Struct("<I2Q")):
        if len(data) >= 4 + layout.size:
            crc, packed, plain = layout.unpack_from(data, 4)
            if plain == size and packed <= size:
                return crc, plain, 4 + layout.size
    if len(data) < 16:
        return None
    crc, _, plain = struct.unpack_from("<3I", data, 4)
    return crc, plain, 16


def decode_name(raw: bytes, flags: int) -> str:
    """Return a member's name; bytes that do not decode are kept as surrogates."""
    if flags & _FLAG_UTF8:
        return raw.decode("utf-8", "surrogateescape")
    return raw.decode("cp437", "surrogateescape")


def padding_problem(extra: bytes) -> int | None:
    """Return the offset of a byte in `extra` that PyTorch's padding field cannot hold.

    PyTorch aligns storages with an extra field `FB` filled with `Z`; another byte among them is
    damage. None where the field is right, absent, or another writer's.
    """
    if extra[:2] != b"FB" or len(extra) < 4:
        return None
    length = int.from_bytes(extra[2:4], "little")
    body = extra[4:]
    others = len(body) - body.count(b"Z")
    if length != len(body):
        return 2 if not others and len(body) > 1 else None
    if 0 < others <= len(body) // 8 + 1:
        return 4 + next(place for place, byte in enumerate(body) if byte != 0x5A)
    return None


def _zip64_values(extra: bytes) -> list[int]:
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        body = extra[at + 4 : at + 4 + length]
        if kind == _ZIP64_FIELD:
            whole = len(body) // 8 * 8
            return [value for (value,) in struct.iter_unpack("<Q", body[:whole])]
        at += 4 + length
    return []

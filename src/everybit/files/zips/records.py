"""The records of a ZIP archive, parsed from bytes: central directory, local headers, end records.

Only what APPNOTE.TXT 6.3 defines and PyTorch's writer (miniz) uses. No record is trusted: lengths
are checked against what was read.
"""

from __future__ import annotations

import struct
from typing import Final

END: Final = struct.Struct("<4s4H2IH")
END64: Final = struct.Struct("<4sQ2H2I4Q")
LOCATOR64: Final = struct.Struct("<4sIQI")
CENTRAL: Final = struct.Struct("<4s6H3I5H2I")
LOCAL: Final = struct.Struct("<4s5H3I2H")
_CENTRAL_BYTES: Final = CENTRAL.size
_LOCAL_BYTES: Final = LOCAL.size

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
_PADDING_FIELD: Final = int.from_bytes(b"FB", "little")
#: Versions of the format and systems that writers name, in use at all.
VERSIONS: Final = frozenset({0, 10, 11, 20, 21, 23, 25, 27, 30, 45, 46, 50, 51, 52, 61, 62, 63})
SYSTEMS: Final = frozenset({0, 3, 10, 11, 19})


class CentralEntry:
    """One entry of the central directory."""

    __slots__ = (
        "attributes", "compressed_size", "crc", "disk", "extra", "flags", "header_offset", "length",
        "made_by", "method", "modified", "name", "raw_name", "size", "version_needed",
    )  # fmt: skip

    name: str
    raw_name: bytes
    made_by: int
    flags: int
    method: int
    version_needed: int
    modified: tuple[int, int]
    crc: int
    compressed_size: int
    size: int
    disk: int
    attributes: tuple[int, int]
    extra: bytes
    header_offset: int
    length: int

    def copy(self) -> CentralEntry:
        """Return one of its own with the same facts."""
        made = CentralEntry()
        for name in self.__slots__:
            setattr(made, name, getattr(self, name))
        return made


class LocalHeader:
    """The header before a member's data."""

    __slots__ = (
        "compressed_size", "crc", "extra", "flags", "length", "method", "modified", "raw_name",
        "size", "version_needed",
    )  # fmt: skip

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
    at = offset + _CENTRAL_BYTES
    if at > len(data):
        return None
    (
        mark, made_by, needed, flags, method, time, date, crc, packed, size, n, m, k, disk,
        internal, external, local,
    ) = CENTRAL.unpack_from(data, offset)  # fmt: skip
    length = _CENTRAL_BYTES + n + m + k
    if mark != CENTRAL_MARK or offset + length > len(data):
        return None
    raw_name, extra = data[at : at + n], data[at + n : at + n + m]
    if _SATURATED32 in (size, packed, local):
        size, packed, local = _widened(extra, size, packed, local)
    made = CentralEntry()
    made.name = decode_name(raw_name, flags)
    made.raw_name = raw_name
    made.made_by = made_by
    made.flags = flags
    made.method = method
    made.version_needed = needed
    made.modified = (time, date)
    made.crc = crc
    made.compressed_size = packed
    made.size = size
    made.disk = disk
    made.attributes = (internal, external)
    made.extra = extra
    made.header_offset = local
    made.length = length
    return made


def parse_local(data: bytes) -> LocalHeader | None:
    """Return the local header at the start of `data`, or None where there is none or it is cut."""
    if len(data) < _LOCAL_BYTES:
        return None
    mark, needed, flags, method, time, date, crc, packed, size, n, m = LOCAL.unpack_from(data)
    end_of_name = _LOCAL_BYTES + n
    length = end_of_name + m
    if mark != LOCAL_MARK or len(data) < length:
        return None
    extra = data[end_of_name:length]
    if size == _SATURATED32 or packed == _SATURATED32:
        size, packed = _widened(extra, size, packed)
    made = LocalHeader()
    made.raw_name = data[_LOCAL_BYTES:end_of_name]
    made.flags = flags
    made.method = method
    made.version_needed = needed
    made.modified = (time, date)
    made.crc = crc
    made.compressed_size = packed
    made.size = size
    made.extra = extra
    made.length = length
    return made


def parse_descriptor(
    data: bytes, size: int, packed_size: int | None = None
) -> tuple[int, int, int] | None:
    """Return `(crc, size, length)` of the data descriptor at the start of `data`.

    The record has two widths and says nothing about which: the one that gives `size` is taken. A
    compressed size that is not the wanted one gives the size -1.
    """
    if data[:4] != DESCRIPTOR_MARK:
        return None
    for layout in (struct.Struct("<3I"), struct.Struct("<I2Q")):
        if len(data) >= 4 + layout.size:
            crc, packed, plain = layout.unpack_from(data, 4)
            if plain == size and (packed <= size if packed_size is None else packed == packed_size):
                return crc, plain, 4 + layout.size
    if len(data) < 16:
        return None
    crc, _, plain = struct.unpack_from("<3I", data, 4)
    return crc, plain if plain != size else -1, 16


def decode_name(raw: bytes, flags: int) -> str:
    """Return a member's name; bytes that do not decode are kept as surrogates."""
    if raw.isascii():
        return raw.decode("ascii")  # as both of the others do, in a twentieth of the time
    if flags & _FLAG_UTF8:
        return raw.decode("utf-8", "surrogateescape")
    return raw.decode("cp437", "surrogateescape")


def extra_problem(extra: bytes) -> int | None:
    """Return the offset of a byte in a local header's extra field that cannot be right, or None.

    The field is a chain of ids, lengths and bodies, and may end in zeros. PyTorch aligns storages
    with a body of the id `FB` filled with `Z`; another byte among them, or an id or a length that
    one flipped bit away would be right, is damage.
    """
    at = 0
    while len(extra) - at >= 4:
        if not extra[at:].strip(b"\0"):
            return None
        kind, length = struct.unpack_from("<2H", extra, at)
        body = extra[at + 4 : at + 4 + length]
        if len(body) < length:
            return at + 2
        if kind == _PADDING_FIELD:
            others = len(body) - body.count(b"Z")
            if others:
                return at + 4 + next(place for place, byte in enumerate(body) if byte != 0x5A)
        elif (kind ^ _PADDING_FIELD).bit_count() == 1 or (
            length > 3 and body.count(b"Z") == length
        ):
            return at
        at += 4 + length
    return at if extra[at:].strip(b"\0") else None


def _widened(extra: bytes, *fields: int) -> list[int]:
    """Return the fields, those that 32 bits do not hold from the ZIP64 record, in its order."""
    wide = iter(_zip64_values(extra))
    return [next(wide, field) if field == _SATURATED32 else field for field in fields]


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

"""ZIP archives field by field, so that local and central headers can say different things."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Final

LOCAL: Final = 0x04034B50
CENTRAL: Final = 0x02014B50
END: Final = 0x06054B50


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A member, and where its two headers differ from the truth.

    Attributes:
        name: Of the member.
        data: What is stored.
        method: How it is stored: 0, or 8 for deflated.
        local_name: The name in the local header.
        local_flags: Flag bits of the local header.
        flags: Flag bits of the central record.
        crc: The CRC that both tell.
        local_crc: The CRC of the local header.
        told_method: The method that the central record tells.
        local_method: The method that the local header tells.
        told_size: The size that the central record tells.
        local_size: The size that the local header tells.
        hidden: Has no central record.
        attributes: External attributes; a link has `0xA1FF << 16`.
        extra: Extra field of both.
        system: The system that made it; 3 is Unix.
        version: Version needed.
        at: Offset that the central record tells.
    """

    name: str | bytes
    data: bytes
    method: int = 0
    local_name: str | bytes | None = None
    local_flags: int = 0
    flags: int = 0
    crc: int | None = None
    local_crc: int | None = None
    told_method: int | None = None
    local_method: int | None = None
    told_size: int | None = None
    local_size: int | None = None
    hidden: bool = False
    attributes: int = 0
    extra: bytes = b""
    system: int = 0
    version: int = 20
    at: int | None = None


def _raw(name: str | bytes) -> bytes:
    return name if isinstance(name, bytes) else name.encode()


def _packed(entry: Entry) -> bytes:
    if entry.method != 8:
        return entry.data
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(entry.data) + packer.flush()


def _either(first: int | None, second: int) -> int:
    return second if first is None else first


def archive(
    entries: list[Entry], *, before: bytes = b"", comment: bytes = b"", after: bytes = b""
) -> bytes:
    """Return an archive of these members.

    Args:
        entries: In order.
        before: Bytes in front; offsets count from behind them, as self-extractors have it.
        comment: Of the archive.
        after: Bytes behind the end record.
    """
    out, records = bytearray(), bytearray()
    told = 0
    for entry in entries:
        packed = _packed(entry)
        crc = _either(entry.crc, zlib.crc32(entry.data))
        at = len(out)
        local = _raw(entry.name if entry.local_name is None else entry.local_name)
        out += struct.pack(
            "<IHHHHHIIIHH", LOCAL, entry.version, entry.local_flags,
            _either(entry.local_method, entry.method), 0, 0x21, _either(entry.local_crc, crc),
            len(packed), _either(entry.local_size, len(entry.data)), len(local), len(entry.extra),
        )  # fmt: skip
        out += local + entry.extra + packed
        if entry.hidden:
            continue
        told += 1
        name = _raw(entry.name)
        size = _either(entry.told_size, len(entry.data))
        records += struct.pack(
            "<IBBHHHHHIIIHHHHHII", CENTRAL, 20, entry.system, entry.version, entry.flags,
            _either(entry.told_method, entry.method), 0, 0x21, crc,
            len(packed) if entry.method == 8 else size, size, len(name), len(entry.extra), 0, 0, 0,
            entry.attributes, _either(entry.at, at),
        )  # fmt: skip
        records += name + entry.extra
    start = len(out)
    out += records
    out += struct.pack("<IHHHHIIH", END, 0, 0, told, told, len(records), start, len(comment))
    return before + bytes(out) + comment + after


def torch_entries(
    pickle: bytes, *, name: str = "archive", storage: bytes = bytes(16)
) -> list[Entry]:
    """The members of a `torch.save` archive around this pickle."""
    return [
        Entry(name=f"{name}/data.pkl", data=pickle),
        Entry(name=f"{name}/byteorder", data=b"little"),
        Entry(name=f"{name}/data/0", data=storage),
        Entry(name=f"{name}/version", data=b"3\n"),
    ]


def torch_zip(pickle: bytes) -> bytes:
    """A `torch.save` archive around this pickle."""
    return archive(torch_entries(pickle))

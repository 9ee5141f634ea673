"""A tar archive's members, by their headers; every header carries a checksum of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Location
from everybit.files.damage import Damage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.files.source import ByteSource

BLOCK_BYTES: Final = 512
_MAX_MEMBERS: Final = 20_000
_MAX_NAME_BYTES: Final = 64 * 1024
_REGULAR: Final = (b"0", b"\0", b"7")
_LONG_NAME: Final = b"L"
_LONG_TARGET: Final = b"K"
#: Links, devices, folders, pipes; unknown types are read as files, as Python's tarfile does.
_NO_CONTENT: Final = frozenset({b"1", b"2", b"3", b"4", b"5", b"6"})
_PAX: Final = b"x"
#: Bytes behind the end that are looked at for anything but zeros.
_END_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TarMember:
    """A regular file in an archive; `end` lies beyond the file where that is cut."""

    name: str
    header_start: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TarEntry:
    """Any entry of an archive: a file, a link, a folder, a device.

    Attributes:
        name: Its name.
        kind: The type byte of its header.
        target: Where a link leads; "" for others.
        header_start: Where its header begins.
        start: Where its content begins.
        end: Where it ends.
    """

    name: str
    kind: bytes
    target: str
    header_start: int
    start: int
    end: int

    @property
    def regular(self) -> bool:
        """Whether it is a file that holds its content."""
        return self.kind not in _NO_CONTENT


def is_tar_header(block: bytes) -> bool:
    """Return whether a block is a tar header: by its mark, or by its own checksum."""
    if len(block) < BLOCK_BYTES or not block[0]:
        return False
    return block[257:262] == b"ustar" or _checksum_holds(block)


def read_tar(
    source: ByteSource, *, most: int = _MAX_MEMBERS
) -> tuple[list[TarMember], list[Damage]]:
    """Return the regular files of an archive, and what in it cannot be right; never raises.

    Args:
        source: The file.
        most: Headers to read; the rest of the archive is then not looked at.
    """
    members: list[TarMember] = []
    damages: list[Damage] = []
    at = 0
    name = ""
    for _ in range(most):
        block = source.read(at, BLOCK_BYTES)
        if len(block) < BLOCK_BYTES:
            return members, [*damages, _cut(source, at, "its end mark")]
        if not block.strip(b"\0"):
            return members, [*damages, *_check_end(source, at)]
        size = _number(block[124:136])
        if not _checksum_holds(block) or size is None:
            if damages:
                return members, damages
            damages.append(_damage("a tar header fails its checksum", at, at + BLOCK_BYTES))
            # Another field may be the damaged one, so what it says is tried once.
            if size is None or block[257:262] != b"ustar":
                return members, damages
        start = at + BLOCK_BYTES
        kind = block[156:157]
        if kind in (_LONG_NAME, _PAX):
            name = _name_in(source.read(start, min(size, _MAX_NAME_BYTES)), kind) or name
        else:
            if kind in _REGULAR:
                shown = name or _plain_name(block)
                member = TarMember(name=shown, header_start=at, start=start, end=start + size)
                members.append(member)
                if member.end > source.size:
                    return members, [
                        *damages, _cut(source, member.end, f"its member {shown[:80]}")
                    ]  # fmt: skip
            name = ""
        at = start + -(-size // BLOCK_BYTES) * BLOCK_BYTES
    return members, damages


def read_entries(source: ByteSource, *, most: int = _MAX_MEMBERS) -> Iterator[TarEntry]:
    """Yield every entry of an archive, up to the first header that cannot be read.

    Args:
        source: The file.
        most: Headers to read.
    """
    at = 0
    name = target = ""
    for _ in range(most):
        block = source.read(at, BLOCK_BYTES)
        size = _number(block[124:136])
        if len(block) < BLOCK_BYTES or size is None or not _checksum_holds(block):
            return
        start = at + BLOCK_BYTES
        kind = block[156:157]
        if kind in (_LONG_NAME, _LONG_TARGET, _PAX):
            data = source.read(start, min(size, _MAX_NAME_BYTES))
            if kind == _LONG_TARGET:
                target = _name_in(data, _LONG_NAME)
            else:
                name = _name_in(data, kind) or name
                target = _pax_value(data, b"linkpath") or target if kind == _PAX else target
        else:
            link = block[157:257].split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
            yield TarEntry(
                name=name or _plain_name(block),
                kind=kind,
                target=target or link,
                header_start=at,
                start=start,
                end=min(start + size, source.size),
            )
            name = target = ""
        length = 0 if kind in _NO_CONTENT else size
        at = start + -(-length // BLOCK_BYTES) * BLOCK_BYTES


def _checksum_holds(block: bytes) -> bool:
    wanted = _number(block[148:156])
    plain = block[:148] + b" " * 8 + block[156:BLOCK_BYTES]
    return wanted is not None and wanted == sum(plain)


def _number(raw: bytes) -> int | None:
    """Return a size or checksum: octal digits, or binary where the first bit is set."""
    if raw[:1] == b"\x80":
        return int.from_bytes(raw[1:], "big") if not raw[1:4].strip(b"\0") else None
    digits = raw.strip(b" \0")
    if not digits.isdigit():
        return None
    try:
        return int(digits, 8)
    except ValueError:
        return None


def _plain_name(block: bytes) -> str:
    short = block[:100].split(b"\0", 1)[0]
    above = block[345:500].split(b"\0", 1)[0] if block[257:263] == b"ustar\0" else b""
    return (above + b"/" + short if above else short).decode("utf-8", "surrogateescape")


def _name_in(data: bytes, kind: bytes) -> str:
    """Return the name that a long-name or pax record gives to the next member."""
    if kind == _LONG_NAME:
        return data.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
    return _pax_value(data, b"path")


def _pax_value(data: bytes, wanted: bytes) -> str:
    for record in data.split(b"\n"):
        _, _, pair = record.partition(b" ")
        key, equals, value = pair.partition(b"=")
        if equals and key == wanted:
            return value.decode("utf-8", "surrogateescape")
    return ""


def _check_end(source: ByteSource, at: int) -> list[Damage]:
    """Return what is wrong behind the last member: two blocks of zeros end an archive."""
    if source.size < at + 2 * BLOCK_BYTES:
        return [_cut(source, at + 2 * BLOCK_BYTES, "its end mark")]
    rest = source.read(at, _END_BYTES)
    stray = len(rest) - len(rest.lstrip(b"\0"))
    if stray < len(rest):
        return [_damage("bytes follow the end of the archive", at + stray, source.size)]
    return []


def _cut(source: ByteSource, wanted: int, what: str) -> Damage:
    return Damage(
        rule="FIL104",
        message=f"ends within {what}",
        where=Location(byte_range=(source.size, max(wanted, source.size + 1))),
        evidence={"size_bytes": source.size, "promised_by": "its tar headers", "readable": []},
    )


def _damage(message: str, start: int, end: int) -> Damage:
    return Damage(rule="FIL107", message=message, where=Location(byte_range=(start, end)))

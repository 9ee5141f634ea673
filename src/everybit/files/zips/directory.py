"""Where an archive's central directory lies, by its end records held against each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.files.damage import malformed
from everybit.files.zips import records as zr
from everybit.files.zips.agreement import record_damage

if TYPE_CHECKING:
    from everybit.files.damage import Damage
    from everybit.files.source import ByteSource

_MAX_DIRECTORY_BYTES: Final = 512 * 1024 * 1024
_END_SEARCH_BYTES: Final = 65535 + zr.END.size
_NO_DIRECTORY: Final = "its end record gives a place for the central directory where that is not"
_LOCATOR: Final = "its ZIP64 locator is damaged"
#: What is said of end records that are right for the file before bytes went missing in it.
OF_PLACES: Final = (_NO_DIRECTORY, _LOCATOR)


class Directory:
    """What the end records say of the central directory, and where it really starts."""

    __slots__ = ("num_entries", "said_start", "size", "start")

    def __init__(self, num_entries: int, start: int, size: int, said_start: int) -> None:
        self.num_entries = num_entries
        self.start = start
        self.size = size
        self.said_start = said_start


def find_directory(source: ByteSource, damages: list[Damage]) -> Directory:
    """Return where the central directory lies; what cannot be right is added to `damages`.

    Raises:
        MalformedError: There is no end record, or no directory where any of them says.
    """
    tail_start = max(0, source.size - _END_SEARCH_BYTES)
    tail = source.read(tail_start, source.size - tail_start)
    at = tail.rfind(zr.END_MARK, 0, max(0, len(tail) - zr.END.size + 4))
    if at < 0:
        raise malformed(
            "has no end-of-archive record: the end of the file is missing or overwritten",
            rule="FIL104",
            evidence={"size_bytes": source.size, "promised_by": "a ZIP archive ends with one"},
        )
    place = tail_start + at
    _, disk, first_disk, here, total, size, start, comment = zr.END.unpack_from(tail, at)
    after = place + zr.END.size + comment
    if after != source.size:
        damages.append(
            record_damage(
                "bytes follow its end-of-archive record", (min(after, source.size), source.size)
            )
        )
    end_of_directory = place
    wide = _find_zip64(source, place, damages)
    if wide is not None:
        place64, disk64, first64, here64, total64, size64, start64 = wide
        end_of_directory = place64
        pairs = (
            (disk, disk64, 0xFFFF), (first_disk, first64, 0xFFFF), (here, here64, 0xFFFF),
            (total, total64, 0xFFFF), (size, size64, 0xFFFFFFFF), (start, start64, 0xFFFFFFFF),
        )  # fmt: skip
        if any(small not in (large, full) for small, large, full in pairs):
            damages.append(
                record_damage("its two end records disagree", (place64, place + zr.END.size))
            )
            if start64 + size64 != place64 and start + size == place64:
                here64, total64, size64, start64 = here, total, size, start
        here, total, size, start, disk, first_disk = here64, total64, size64, start64, 0, 0
    if disk or first_disk or here != total:
        damages.append(
            record_damage("its end record speaks of several disks", (place, place + zr.END.size))
        )
    said_start = start
    if start + size != end_of_directory:
        damages.append(
            record_damage(
                _NO_DIRECTORY,
                (place, place + zr.END.size),
                directory_start=start,
                directory_size=size,
            )
        )
        start, size = _search_directory(source, start, size, end_of_directory)
    if size > _MAX_DIRECTORY_BYTES:
        raise malformed(f"its central directory of {size} bytes is too large to be one")
    return Directory(total, start, size, said_start)


def _search_directory(source: ByteSource, start: int, size: int, end: int) -> tuple[int, int]:
    """Return where the directory really is, by its signature; the end record is damaged."""
    for candidate in (start, end - size):
        if 0 <= candidate < end and source.read(candidate, 4) == zr.CENTRAL_MARK:
            return candidate, end - candidate
    raise malformed(
        "its central directory is not where its end record says",
        byte_range=(end, min(source.size, end + zr.END.size)),
        evidence={"directory_start": start, "directory_size": size},
    )


def _find_zip64(
    source: ByteSource, place: int, damages: list[Damage]
) -> tuple[int, int, int, int, int, int, int] | None:
    locator_at = place - zr.LOCATOR64.size
    if locator_at < 0:
        return None
    locator = source.read(locator_at, zr.LOCATOR64.size)
    guess = locator_at - zr.END64.size
    record_mark = source.read(guess, 4) if guess >= 0 else b""
    if locator[:4] != zr.LOCATOR64_MARK:
        if record_mark != zr.END64_MARK:
            return None
        damages.append(record_damage(_LOCATOR, (locator_at, locator_at + 4)))
        record_at = guess
    else:
        _, disk, record_at, num_disks = zr.LOCATOR64.unpack(locator)
        if disk or num_disks > 1 or record_at != guess:
            damages.append(record_damage(_LOCATOR, (locator_at, place)))
            record_at = guess
    record = source.read(record_at, zr.END64.size) if record_at >= 0 else b""
    if len(record) < zr.END64.size or record[:4] != zr.END64_MARK:
        damages.append(
            record_damage("its ZIP64 end record is damaged", (max(record_at, 0), locator_at))
        )
        return None
    _, length, made_by, needed, disk, first_disk, here, total, size, start = zr.END64.unpack(record)
    known = {made_by & 0xFF, needed} <= zr.VERSIONS and made_by >> 8 in zr.SYSTEMS
    if length != zr.END64.size - 12 or not known:
        damages.append(
            record_damage("its ZIP64 end record is damaged", (record_at + 4, record_at + 12))
        )
    return record_at, disk, first_disk, here, total, size, start

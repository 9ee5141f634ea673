"""What an archive's records say that only a trick, or a very sloppy tool, would make them say."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from everybit.core.finding import Severity
from everybit.files.scans.names import name_problem
from everybit.files.zips import records as zr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.files.damage import Damage
    from everybit.files.scans.content import Content
    from everybit.files.scans.walk import Walk
    from everybit.files.source import ByteSource
    from everybit.files.zips.archive import Archive

#: Flags that writers set: how deflate was tuned, sizes behind the data, UTF-8 names.
_USUAL_FLAGS: Final = 0x0002 | 0x0004 | 0x0008 | 0x0800
_METHODS: Final = {12: "bzip2", 14: "lzma", 93: "zstd", 9: "deflate64", 95: "xz", 99: "AES"}
_MAX_DIRECTORY_BYTES: Final = 256 * 1024 * 1024
_MAX_LISTED: Final = 16
_LINK: Final = 0o120000
_UNIX: Final = 3  # the system of which attributes tell a link
#: Classes of what the archive reader tells, by its words, and what each means to loaders.
_CLASSES: Final = (
    (("two members are called", "stands twice"), "duplicate members", Severity.ERROR),
    (("another name in its local header",), "names that differ", Severity.ERROR),
    (("overlap",), "members that overlap", Severity.ERROR),
    (("follow its end-of-archive",), "bytes behind its end", Severity.WARNING),
    (
        ("end record", "ZIP64", "central directory", "counts"),
        "end records that disagree",
        Severity.WARNING,
    ),
)
_OTHERS: Final = ("records that disagree", Severity.WARNING)
_ADVICE: Final = "Do not load it; ask its author for a file that a plain save wrote."


class Entry:
    """What the directory says of one member, beyond what the archive reader keeps."""

    __slots__ = ("entry", "extra", "place")

    def __init__(self, entry: zr.CentralEntry, place: int, extra: bytes) -> None:
        self.entry = entry
        self.place = place
        self.extra = extra


def read_entries(source: ByteSource, archive: Archive) -> list[Entry]:
    """Return the entries of a central directory, with their extra fields."""
    if not archive.damages:
        return [Entry(entry, place, entry.extra) for entry, place in archive.entries]
    start = archive.directory_start
    data = source.read(start, min(source.size - start, _MAX_DIRECTORY_BYTES))
    found = []
    at = 0
    while (entry := zr.parse_central(data, at)) is not None:
        extra_at = at + zr.CENTRAL.size + len(entry.raw_name)
        (length,) = struct.unpack_from("<H", data, at + 30)
        extra = data[extra_at : extra_at + length]
        found.append(Entry(entry, start + at, extra))
        at += entry.length
    return found


def tell_damages(content: Content, walk: Walk, archive: Archive, entries: Sequence[Entry]) -> None:
    """Tell what the archive reader found, one finding for each kind of thing.

    To `verify` it is damage; here two readers could take two things out of one file.
    """
    groups: dict[tuple[str, Severity], list[Damage]] = {}
    flagged = any(_odd_flags(entry) for entry in entries)
    for damage in archive.damages:
        if flagged and damage.message.endswith("disagree (flags)"):
            continue  # told by the flags themselves
        if _stands_before(damage):
            continue  # told as what no record covers
        groups.setdefault(_class_of(damage), []).append(damage)
    for (what, severity), damages in groups.items():
        first = damages[0]
        place = first.where.byte_range
        members = list(dict.fromkeys(one.where.member for one in damages if one.where.member))
        told = f"has {what}, so that loaders and scanners may read different things: "
        walk.tell(
            content,
            told + first.message,
            where=content.place(*place) if place else None,
            severity=severity,
            remedy=_ADVICE,
            trick=what,
            num_records=len(damages),
            members=members[:_MAX_LISTED],
            records=[one.message for one in damages[:_MAX_LISTED]],
        )


def _stands_before(damage: Damage) -> bool:
    """Return whether a damage is that of bytes before the archive."""
    shifted, place = damage.evidence.get("shifted_by", 0), damage.where.byte_range
    return shifted > 0 and place is not None and place[0] == 0


def _class_of(damage: Damage) -> tuple[str, Severity]:
    for words, what, severity in _CLASSES:
        if any(word in damage.message for word in words):
            return what, severity
    return _OTHERS


def tell_entries(content: Content, walk: Walk, entries: Sequence[Entry]) -> None:
    """Tell of flags, methods, names and links in the directory that no plain save writes."""
    entries = [entry for entry in entries if not _is_usual(entry)]
    if not entries:
        return
    _tell_of(
        content,
        walk,
        [(e, f"flags {e.entry.flags & ~_USUAL_FLAGS:#06x}") for e in entries if _odd_flags(e)],
        "marks members as encrypted or patched, at which some readers stop and others do not",
        trick="flag bits",
    )
    _tell_of(
        content,
        walk,
        [(e, f"method {e.entry.method}") for e in entries if e.entry.method not in (0, 8)],
        "compresses members by a method that torch does not read",
        trick="compression method",
        severity=Severity.WARNING,
    )
    named = [(e, name_problem(e.entry.raw_name.decode("utf-8", "replace"))) for e in entries]
    _tell_of(
        content,
        walk,
        [(e, problem) for e, problem in named if problem],
        "has a member whose name leads astray",
        trick="member names",
    )
    _tell_of(
        content,
        walk,
        [(e, "a link") for e in entries if _is_link(e.entry)],
        "has a member that is a link: unpacking it makes one that leads elsewhere",
        trick="links",
    )
    _tell_of(
        content,
        walk,
        [(e, "a ZIP64 field") for e in entries if _needless_wide_field(e)],
        "has ZIP64 fields that differ from the sizes they are to replace, "
        "which some readers believe and others do not",
        trick="ZIP64 fields",
    )


def _tell_of(
    content: Content,
    walk: Walk,
    odd: list[tuple[Entry, str]],
    what: str,
    *,
    trick: str,
    severity: Severity = Severity.ERROR,
) -> None:
    if not odd:
        return
    first, why = odd[0]
    walk.tell(
        content,
        f"{what}: {first.entry.name!r} ({why})" + _and_more(len(odd)),
        where=content.place(first.place, first.place + first.entry.length),
        severity=severity,
        remedy=_ADVICE,
        trick=trick,
        members=[f"{e.entry.name!r}: {why}" for e, why in odd[:_MAX_LISTED]],
        num_members=len(odd),
    )


def _and_more(count: int) -> str:
    return f" and {count - 1} more" if count > 1 else ""


def _is_usual(entry: Entry) -> bool:
    """Return whether there is nothing to tell of an entry, as with nearly all."""
    said = entry.entry
    return (
        not (said.flags & ~_USUAL_FLAGS or entry.extra)
        and said.method in (zr.STORED, zr.DEFLATED)
        and said.made_by >> 8 != _UNIX
        and not name_problem(said.name)
        and said.raw_name.isascii()
    )


def _odd_flags(entry: Entry) -> bool:
    return bool(entry.entry.flags & ~_USUAL_FLAGS)


def _is_link(entry: zr.CentralEntry) -> bool:
    return entry.made_by >> 8 == _UNIX and (entry.attributes[1] >> 16) & 0o170000 == _LINK


def _needless_wide_field(entry: Entry) -> bool:
    """Return whether a ZIP64 field says something else than the fields that are not full."""
    at, extra = 0, entry.extra
    seen = 0
    known = {entry.entry.size, entry.entry.compressed_size, entry.entry.header_offset, 0}
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        body = extra[at + 4 : at + 4 + length]
        if kind == 1:
            seen += 1
            values = [value for (value,) in struct.iter_unpack("<Q", body[: len(body) // 8 * 8])]
            if seen > 1 or not known.issuperset(values):
                return True
        at += 4 + length
    return False


def method_name(method: int) -> str:
    """Return what people call a compression method."""
    return _METHODS.get(method, f"method {method}")

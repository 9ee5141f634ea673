"""Compressed members of an archive: expanded as far as is needed, and never past a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.files.scans.content import Kind
from everybit.files.scans.expanding import BombError, ExpandError, expand, expand_head
from everybit.files.scans.held import Held
from everybit.files.scans.kinds import HEAD_BYTES
from everybit.files.scans.walk import FREE_BYTES, MAX_RATIO
from everybit.files.scans.zip_records import method_name
from everybit.files.zips import records as zr

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.files.scans.content import Content
    from everybit.files.scans.torch_archive import Layout
    from everybit.files.scans.walk import Walk
    from everybit.files.source import ByteSource
    from everybit.files.zips.archive import Member

_METHODS: Final = {12: Kind.BZIP2, 93: Kind.ZSTD}


def look_into_compressed(walk: Walk, member: Member, child: Content, layout: Layout) -> None:
    """Look into a compressed member: its first bytes, and all of it where they ask for that.

    Args:
        walk: The walk that it is met on.
        member: What the archive says of it.
        child: Its bytes as they lie in the archive.
        layout: What the archive is for.
    """
    raw = member.method == zr.DEFLATED
    kind = _METHODS.get(member.method, Kind.ZLIB)
    if not raw and member.method not in _METHODS:
        if member.method == 14:
            child = child.but(source=_without_lzma_header(child.source, member))
            kind = Kind.LZMA
        else:
            what = f"it is compressed by {method_name(member.method)}"
            walk.closed(child, what)
            walk.look(child, walk)  # what lies there may be no such stream at all
            return
    end = child.source.size
    head = expand_head(child.source, 0, end, kind, HEAD_BYTES, raw=raw)
    probe = child.but(source=Held(child.source.path, [head]), start=None)
    if head and not layout.wants_whole(probe, member.size):
        _tell_growth(walk, child, member)
        walk.outcome.count("members")
        walk.members_left -= 1
        return
    failed: list[ExpandError] = []

    def pieces() -> Iterator[bytes]:
        try:
            yield from expand(child.source, 0, end, kind, walk, raw=raw)
        except ExpandError as error:
            failed.append(error)

    held = Held(child.source.path, pieces())
    try:
        for error in failed:
            remedy = "Do not unpack it." if isinstance(error, BombError) else ""
            walk.closed(child, str(error), remedy=remedy)
        partial = child.partial or bool(failed)
        whole = child.but(source=held, start=None, partial=partial)
        if held.size:
            layout.note(member.name, whole)
            walk.look(whole, walk)
        if failed and not held.size:
            walk.look(child, walk)  # the headers may lie: looked at as if it were stored
    finally:
        held.close()


def _tell_growth(walk: Walk, child: Content, member: Member) -> None:
    """Tell of a member that promises to grow as only a bomb does, or an array of zeros."""
    small = member.size <= MAX_RATIO * member.compressed_size + FREE_BYTES
    if small or member.name.endswith(".npy"):
        return
    walk.warn(
        child,
        f"promises to grow more than {MAX_RATIO} times, to {member.size:,} bytes",
        remedy="Do not unpack it; ask its author what it holds.",
        trick="bomb",
    )


def _without_lzma_header(source: ByteSource, member: Member) -> ByteSource:
    """Return an LZMA member as a stream of its own: other header, same data."""
    props = source.read(4, 5)
    rest = source.read(9, min(source.size, 256 * 1024 * 1024))
    return Held(source.path, [props, member.size.to_bytes(8, "little"), rest])


def look_into_hidden(walk: Walk, child: Content) -> None:
    """Look into a deflated member that stands in the file and not in the directory."""

    def pieces() -> Iterator[bytes]:
        try:
            yield from expand(child.source, 0, child.source.size, Kind.ZLIB, walk, raw=True)
        except ExpandError:
            return  # what came before is looked into

    held = Held(child.source.path, pieces())
    try:
        walk.look(child.but(source=held, start=None), walk)
    finally:
        held.close()

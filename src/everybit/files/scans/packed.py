"""Streams that are compressed as a whole: gzip, bzip2, xz, lzma, zlib, zstd, lz4; 7z and rar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.files.scans.content import Content, Kind
from everybit.files.scans.expanding import (
    ZFILE_HEAD_BYTES,
    BombError,
    ExpandError,
    NoLibraryError,
    expand,
)
from everybit.files.scans.held import Held
from everybit.files.scans.pickle_start import begins_pickle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.files.scans.walk import Walk

_UNPACK: Final = "Unpack it with a tool that you trust, and scan what comes out."
_LIBRARIES: Final = {Kind.ZSTD: "zstandard", Kind.LZ4: "lz4"}


def look_into_packed(content: Content, walk: Walk) -> None:
    """Look into what a compressed stream holds."""
    walk.outcome.count("compressed streams")
    kind = content.kind
    failed: list[ExpandError] = []

    def pieces() -> Iterator[bytes]:
        try:
            start = ZFILE_HEAD_BYTES if kind is Kind.ZFILE else 0
            yield from expand(content.source, start, content.source.size, kind, walk)
        except ExpandError as error:
            failed.append(error)  # What came before it is looked into all the same.

    held = Held(content.source.path, pieces())
    try:
        for error in failed:
            _tell(content, walk, kind, error)
        if held.size:
            walk.look(_inside(content, held, kind, partial=bool(failed)), walk)
    finally:
        held.close()


def _inside(content: Content, held: Held, kind: Kind, *, partial: bool) -> Content:
    name = content.name
    stem = name.rpartition(".")[0] if "." in name else name
    return content.but(
        source=held,
        member=content.inside(f"{stem or name} ({kind})"),
        start=None,
        depth=content.depth + 1,
        partial=partial or content.partial,
    )


def _tell(content: Content, walk: Walk, kind: Kind, error: ExpandError) -> None:
    if isinstance(error, BombError):
        walk.closed(content, str(error), remedy="Do not unpack it; ask its author what it holds.")
    elif isinstance(error, NoLibraryError):
        library = _LIBRARIES.get(kind, kind.value)
        walk.closed(content, str(error), remedy=f"`pip install {library}`, or unpack it first.")
    else:
        walk.closed(content, str(error), remedy=_UNPACK)


def refuse(content: Content, walk: Walk) -> None:
    """Say that an archive of a kind that nothing here reads cannot be looked into."""
    names = {Kind.SEVEN_ZIP: "it is a 7-Zip archive", Kind.RAR: "it is a RAR archive"}
    walk.closed(content, names[content.kind], remedy=_UNPACK)
    head = content.source.read(0, 1024)
    if begins_pickle(head):
        from everybit.files.scans.streams import look_into_pickle

        look_into_pickle(content, walk)

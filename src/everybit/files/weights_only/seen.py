"""What a scan has read of a file before it asks what torch does with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from everybit.files.pickles.nodes import Pickle
    from everybit.files.zips.archive import Archive


class Seen:
    """What was read of one file, so that nothing is read twice.

    Attributes:
        archive: Its directory, where the whole file is one archive.
        pickles: Pickles that were followed to their STOP, by the offset in the file at which they
            stand; their own offsets count from there.
    """

    __slots__ = ("archive", "pickles")

    def __init__(self) -> None:
        self.archive: Archive | None = None
        self.pickles: dict[int, Pickle] = {}

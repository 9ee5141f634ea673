"""What a scan has read of a file before it asks what torch does with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.files.pickles.nodes import Pickle
    from everybit.files.zips.archive import Archive


class Seen:
    """What was read of one file, so that nothing is read twice.

    Attributes:
        archive: Its directory, where the whole file is one archive.
        pickles: The pickles that stand in it as they are, by their offset in the file.
        whole: The pickle of the object that torch would load, once it is known which one that is.
    """

    __slots__ = ("archive", "pickles", "whole")

    def __init__(self) -> None:
        self.archive: Archive | None = None
        self.pickles: dict[int, Pickle] = {}
        self.whole: Pickle | None = None

    def add(self, pickles: Sequence[Pickle], start: int) -> None:
        """Take in pickles that were read one after the other from an offset of the file on."""
        for pickle in pickles:
            self.pickles.setdefault(start + pickle.start, pickle)

    def at(self, start: int, size: int) -> Pickle | None:
        """Return the pickle at an offset, if it ends within `size` bytes as all loaders read it."""
        found = self.pickles.get(start)
        if found is None or found.error is not None or found.oddities or found.crosses:
            return None
        return found if found.end - found.start <= size else None

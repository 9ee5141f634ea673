"""Of which values, and at which steps, block sums are taken."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

#: Sums of everything are taken at the first checked steps, where runs under another environment
#: part, and at every so-manyeth later: they cost several times what a digest does. Where a run is
#: not traced otherwise, the first step has to do.
FIRST: Final = 4
FIRST_UNTRACED: Final = 1
EVERY: Final = 64


class Schedule:
    """Block sums of everything at some steps, of what is asked for at every one.

    Args:
        asked: Patterns of names, with commas (`head*,grad blocks.0*`); None for none.
        first: So many steps at the beginning have sums of everything.
    """

    def __init__(self, asked: str | None, *, first: int = FIRST) -> None:
        self._first = first
        self._patterns = [each.strip() for each in (asked or "").split(",") if each.strip()]
        self._number = 0
        self.wants: Callable[[str], bool] = lru_cache(maxsize=65_536)(self._wants)

    @property
    def everything(self) -> bool:
        """Whether sums of everything are taken in the step under way."""
        return self._number < self._first or self._number % EVERY == 0

    def next(self) -> None:
        """Count a checked step as done."""
        self._number += 1

    def _wants(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self._patterns)

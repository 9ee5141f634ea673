"""What a run holds before its first step, once everything that is loaded over is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.core.link import Link
from everybit.core.observation import TensorTable

if TYPE_CHECKING:
    from collections.abc import Iterable


def overlay(tables: Iterable[TensorTable]) -> tuple[TensorTable, set[str]]:
    """Return the words after all loads, and the names that a load wrote."""
    words: dict[str, int] = {}
    loaded: set[str] = set()
    for table in tables:
        words |= table.as_dict()
        if table.link is Link.LOAD:
            loaded |= set(table.names)
    table = TensorTable(link=Link.INIT, names=tuple(words), digests=tuple(words.values()))
    return table, loaded

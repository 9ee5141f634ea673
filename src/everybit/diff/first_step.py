"""The first step of a process beside a later one of another: what only a first step is without.

A Guard takes calls without gradients for evaluation once it has seen the program train; before its
first update it cannot tell. And gradients of the step before may still lie there as a later step
begins. So the first step of a resumed run may hold the inputs of calls, and lack gradients, that
the same step of the run that went through does not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from everybit.core.link import Link
from everybit.core.observation import TensorTable

if TYPE_CHECKING:
    from everybit.core.observation import StepRecord


def as_later(first: StepRecord, later: StepRecord) -> tuple[StepRecord, StepRecord]:
    """Return both records with what they can have in common.

    Args:
        first: The first record of a process.
        later: What another process holds at that step, in its middle.
    """
    given = [_rows(each, Link.BATCH) for each in (first, later)]
    extra = len(given[0]) - len(given[1])
    if extra > 0 and given[1] and [w for _, w in given[0][extra:]] == [w for _, w in given[1]]:
        table = _table(Link.BATCH, given[1])
        # Its streams were read as the first of these calls began, and so earlier.
        dropped = (Link.BATCH, Link.RNG)
        first = _with(first, dropped, table)
        later = _with(later, dropped, table)
    names = [{name for name, _ in _rows(each, Link.GRAD)} for each in (first, later)]
    if names[1] - names[0]:
        common = names[0] & names[1]
        first, later = (
            _with(
                each,
                (Link.GRAD,),
                _table(Link.GRAD, [row for row in _rows(each, Link.GRAD) if row[0] in common]),
            )
            for each in (first, later)
        )
    return first, later


def _rows(record: StepRecord, link: Link) -> list[tuple[str, int]]:
    return [
        (name, word)
        for table in record.tables
        if table.link is link
        for name, word in zip(table.names, table.words(), strict=True)
    ]


def _table(link: Link, rows: list[tuple[str, int]]) -> TensorTable:
    return TensorTable(
        link=link, names=tuple(name for name, _ in rows), digests=tuple(word for _, word in rows)
    )


def _with(record: StepRecord, dropped: tuple[Link, ...], table: TensorTable) -> StepRecord:
    """Return a record with one table in the place of all of these links."""
    kept = [each for each in record.tables if each.link not in dropped]
    at = next((n for n, each in enumerate(kept) if each.link.position > table.link.position), None)
    kept.insert(len(kept) if at is None else at, table)
    return replace(record, tables=tuple(each for each in kept if each.names))

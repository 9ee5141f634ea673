"""The first step of a process beside the same step of a run that went through.

A Guard takes calls without gradients for evaluation once it has seen the program train; before its
first update it cannot tell. A call between two steps is on record with the next one, and a run that
goes on from a checkpoint does not make it again. And gradients of the step before may still lie
there as a later step begins. So at that step each may hold inputs of calls, and the one that went
through gradients, that the other does not.
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

    Where the streams differ too, this counts only if all that is left agrees: nothing else tells
    what is left out.

    Args:
        first: The first record of a process.
        later: What another process holds at that step, in its middle.
    """
    given = [_rows(each, Link.BATCH) for each in (first, later)]
    num_common = min(map(len, given))
    if len(given[0]) != len(given[1]):
        # The streams were read as the first of these calls began, and so at another time.
        dropped = (Link.BATCH, Link.RNG)
        first, later = (
            _with(each, dropped, _numbered(rows[len(rows) - num_common :]))
            for each, rows in zip((first, later), given, strict=True)
        )
    if later.losses and not first.losses:
        # Of parameters that step within backward the first one does so before a loss is expected.
        kept = tuple(each for each in later.tables if each.link is not Link.LOSS)
        later = replace(later, losses=(), tables=kept)
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


def _numbered(rows: list[tuple[str, int]]) -> TensorTable:
    """Return the last inputs, named by their place: names count the calls of a step."""
    return _table(Link.BATCH, [(str(number), word) for number, (_, word) in enumerate(rows)])


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

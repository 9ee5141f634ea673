"""Traced calls that turn out to belong to no step are taken out, and the others numbered anew."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from everybit.core.trace_name import parse_trace_name
from everybit.guard.trace.columns import Column

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from everybit.guard.step_calls import StepCall


def dropped_calls(calls: Iterable[StepCall]) -> dict[str, list[int]]:
    """Return the numbers of the calls of each module that were made within some root calls."""
    dropped: dict[str, list[int]] = defaultdict(list)
    for call in calls:
        before = call.before or {}
        for path, after in (call.after or {}).items():
            dropped[path] += range(before.get(path, 0), after)
    return {path: sorted(numbers) for path, numbers in dropped.items() if numbers}


def without(column: Column, dropped: Mapping[str, list[int]]) -> Column:
    """Return a column without the values of some calls; later calls of a module move up."""
    kept = Column()
    for name, word in zip(column.names, column.words, strict=True):
        told = _renamed(name, dropped)
        if told is not None:
            kept.add(told, word)
    for name, row in zip(column.sum_names, column.rows, strict=True):
        told = _renamed(name, dropped)
        if told is not None:
            kept.add_sums(told, row)
    return kept


def _renamed(name: str, dropped: Mapping[str, list[int]]) -> str | None:
    traced = parse_trace_name(name)
    numbers = dropped.get(traced.module) if traced is not None else None
    if traced is None or not numbers:
        return name
    earlier = bisect_left(numbers, traced.call)
    if earlier < len(numbers) and numbers[earlier] == traced.call:
        return None
    return str(replace(traced, call=traced.call - earlier))

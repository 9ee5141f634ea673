"""A location in words, short enough for one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everybit.report.safe_text import NAME_LIMIT, plural, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.core.finding import Location

#: More indices than this are counted, not listed.
MAX_INDICES = 6
#: Which of a parameter's values a place is of; a bare name is the parameter as it is carried.
_VALUES_OF = {
    "init": "initial value of ",
    "load": "loaded value of ",
    "grad": "gradient of ",
    "reduce": "reduced gradient of ",
    "update": "update of ",
}


def describe_place(where: Location) -> str:
    """Return the place from the widest part to the narrowest.

    >>> from everybit.core.finding import Location
    >>> from everybit.core.link import Link
    >>> describe_place(Location(step=12, rank=1, parameter="h.0.weight", elements=(17,)))
    'step 12, rank 1, h.0.weight, element 17'
    >>> describe_place(Location(step=12, link=Link.GRAD, parameter="h.0.weight"))
    'step 12, gradient of h.0.weight'
    """
    parts = [
        _named(where.run, "run "),
        _named(where.path, ""),
        _named(where.member if _is_cell(where) else None, ""),
        _named(where.line, "line "),
        _named(where.column, "column "),
        _named(None if _is_cell(where) else where.member, "member "),
        _named(where.step, "step "),
        _named(where.rank, "rank "),
        _named(where.device, ""),
        _named(where.core, "core "),
        _named(where.worker, "worker "),
        _named(where.sample, "sample "),
        # A tensor's name tells its module, and `_tensor` of which of its values it is.
        _named(None if where.parameter else where.link, "link "),
        _named(None if _says_module(where) else where.module, "module "),
        _named(where.optimizer, "optimizer "),
        _tensor(where),
        _indices("element", where.elements),
        _ranges("element", where.element_ranges),
        _ranges("byte", (where.byte_range,) if where.byte_range else None),
        _ranges("byte", where.byte_ranges),
    ]
    return ", ".join(part for part in parts if part)


def _is_cell(where: Location) -> bool:
    """Whether the member is a cell of a notebook, which its line is counted in."""
    return where.line is not None and (where.member or "").startswith("cell ")


def _says_module(where: Location) -> bool:
    return bool(where.module and where.parameter and where.parameter.startswith(where.module))


def _named(value: Any, label: str) -> str:
    return "" if value is None else f"{label}{printable(value)}"


def _tensor(where: Location) -> str:
    # Optimizer state is a parameter's tensor; in a file the tensor stands alone.
    if where.parameter is None:
        return _named(where.tensor, "tensor ")
    name = printable(where.parameter, NAME_LIMIT)
    name = f"{name} ({printable(where.tensor)})" if where.tensor is not None else name
    return f"{_VALUES_OF.get(str(where.link), '')}{name}"


def _indices(noun: str, indices: Sequence[int] | None) -> str:
    if not indices:
        return ""
    shown = ", ".join(printable(index) for index in indices[:MAX_INDICES])
    if len(indices) > MAX_INDICES:
        return f"{plural(len(indices), noun)} ({shown}, ...)"
    return f"{noun} {shown}" if len(indices) == 1 else f"{noun}s {shown}"


def _ranges(noun: str, ranges: Sequence[tuple[int, int]] | None) -> str:
    if not ranges:
        return ""
    shown = ", ".join(f"{start}..{end - 1}" for start, end in ranges[:MAX_INDICES])
    if len(ranges) == 1 and ranges[0][1] - ranges[0][0] < 2:
        # An empty range is a place where something is missing.
        return f"{noun} {ranges[0][0]}" if ranges[0][1] > ranges[0][0] else ""
    if len(ranges) > MAX_INDICES:
        total = sum(end - start for start, end in ranges)
        return f"{plural(total, noun)} in {len(ranges):,} ranges ({shown}, ...)"
    return f"{noun}s {shown}"

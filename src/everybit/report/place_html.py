"""A location as a row of labels, the widest part first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.report.markup import Markup, tag
from everybit.report.safe_text import NAME_LIMIT, printable
from everybit.report.words import Said, listed, pair, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from everybit.core.finding import Location
    from everybit.core.link import Link

#: More indices than this are cut.
_MAX_INDICES: Final = 6
_PLAIN: Final = (
    "run",
    "path",
    "line",
    "column",
    "member",
    "entry",
    "step",
    "rank",
    "device",
    "core",
    "worker",
    "sample",
)


def draw_place(where: Location) -> Markup:
    """Return the place as a list of labels."""
    return tag("ul", [tag("li", pair(part)) for part in _parts(where)], class_="place")


def tell_place(where: Location) -> Said:
    """Return the place in a sentence."""
    return listed(list(_parts(where)))


def draw_place_line(where: Location) -> Markup:
    """Return the place as text, for a table of many."""
    return pair(tell_place(where))


def tell_link(link: Link) -> Said:
    """Return a link's name."""
    return say(f"link.{link}")


def _parts(where: Location) -> Iterator[Said]:
    for key in _PLAIN:
        value = getattr(where, key)
        if value is not None:
            shown = f"{value:,}" if key == "step" and isinstance(value, int) else printable(value)
            yield say(f"place.{key}", value=shown)
    # A tensor's name tells its module, and that it is state, better than the words do.
    if where.link is not None and where.parameter is None:
        yield tell_link(where.link)
    if where.module and not (where.parameter or "").startswith(where.module):
        yield say("place.module", value=printable(where.module))
    if where.optimizer is not None:
        yield say("place.optimizer", value=printable(where.optimizer))
    name = printable(where.parameter, NAME_LIMIT) if where.parameter is not None else ""
    if where.tensor is not None:
        tensor = printable(where.tensor, NAME_LIMIT)
        name = f"{name} ({tensor})" if name else tensor
    if name:
        yield say("place.tensor", value=name)
    yield from _indices("element", [(at, at + 1) for at in where.elements or ()])
    yield from _indices("element", where.element_ranges or ())
    yield from _indices("byte", (where.byte_range,) if where.byte_range else ())
    yield from _indices("byte", where.byte_ranges or ())


def _indices(noun: str, ranges: Sequence[tuple[int, int]]) -> Iterator[Said]:
    # An empty range is a place where something is missing.
    full = [(start, end) for start, end in ranges if end > start]
    if not full:
        return
    total = sum(end - start for start, end in full)
    shown = ", ".join(
        f"{start}" if end == start + 1 else f"{start}..{end - 1}"
        for start, end in full[:_MAX_INDICES]
    )
    if len(full) > _MAX_INDICES:
        shown = f"{shown}, ... ({total:,})"
    yield say(f"place.{noun}", value=shown, n=total)

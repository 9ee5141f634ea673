"""Two sequences of operations side by side: the first that reads or gives other bits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from everybit.core.reanchored import How

if TYPE_CHECKING:
    from collections.abc import Iterable

_OP: Final = 0
_MODULE: Final = 1
_PHASE: Final = 2
_READS: Final = 3
_NAMES: Final = 4
_MADE: Final = 5
_GIVES: Final = 6
_SHAPES: Final = 7
_PLAIN: Final = 8
_DRAWS: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstOperation:
    """Where two steps part.

    Attributes:
        how: In what the operation differs.
        number: Its place among the operations.
        op: Its name, in A.
        module: The module in whose call it lies.
        phase: `forward`, `backward`, `update`, or "".
        name: The tensor concerned, where it has a name.
        detail: Numbers or operations that differ.
        place: Of the input that differs.
    """

    how: How
    number: int
    op: str
    module: str
    phase: str
    name: str = ""
    detail: str = ""
    place: int = 0


def first_operation(a: Iterable[list[Any]], b: Iterable[list[Any]]) -> FirstOperation | None:
    """Return the first operation at which two steps part; None where all have the same bits."""
    seen: list[tuple[str, str]] = []
    for number, (one, other) in enumerate(zip_longest(a, b)):
        if one is None or other is None:
            ended, longer = ("A", other) if one is None else ("B", one)
            detail = f"{ended} ends where the other goes on with {longer[_OP]}"
            return _found(How.PATH, number, longer, detail=detail)
        if one[_OP] != other[_OP]:
            detail = f"A computes {_told(one)}, B {_told(other)}"
            return _found(How.PATH, number, one, detail=detail)
        part = _part(one, other, number, seen)
        if part is not None:
            return part
        seen.append((one[_OP], one[_MODULE]))
    return None


def _part(
    one: list[Any], other: list[Any], number: int, seen: list[tuple[str, str]]
) -> FirstOperation | None:
    """Compare one operation's inputs, numbers, random stream and outputs, in this order."""
    if len(one[_READS]) != len(other[_READS]):
        detail = f"{len(one[_READS])} tensors go in in A, {len(other[_READS])} in B"
        return _found(How.PATH, number, one, detail=detail)
    for place, (mine, theirs) in enumerate(zip(one[_READS], other[_READS], strict=True)):
        if mine != theirs and mine and theirs:
            name = one[_NAMES].get(str(place), "") or other[_NAMES].get(str(place), "")
            made = one[_MADE].get(str(place))
            if name or made is None:
                how = How.CARRIED if name else How.GIVEN
                return _found(how, number, one, name=name or f"input {place}", place=place)
            return _changed(number, one, place, seen[made] if 0 <= made < number else None)
    if one[_PLAIN] != other[_PLAIN]:
        return _found(How.NUMBERS, number, one, detail=_numbers(one[_PLAIN], other[_PLAIN]))
    if one[_DRAWS] != other[_DRAWS]:
        return _found(How.RNG, number, one)
    if one[_GIVES] != other[_GIVES]:
        name = next(iter(one[_NAMES].values()), "") if one[_PHASE] == "update" else ""
        return _found(How.COMPUTED, number, one, name=name)
    return None


def _changed(
    number: int, event: list[Any], place: int, maker: tuple[str, str] | None
) -> FirstOperation:
    """Return a result that changed between the operation that gave it and one that reads it."""
    if maker is None:
        return _found(How.CARRIED, number, event, name=f"input {place}", place=place)
    inside = f" in {maker[1]}" if maker[1] else ""
    found = _found(
        How.CARRIED, number, event, name=f"the result of {maker[0]}{inside}", place=place
    )
    # It is wrong where it was given, not where it is read.
    return replace(found, module=maker[1])


def _found(how: How, number: int, event: list[Any], **facts: Any) -> FirstOperation:
    return FirstOperation(
        how=how,
        number=number,
        op=event[_OP],
        module=event[_MODULE],
        phase=event[_PHASE],
        **facts,
    )


def _told(event: list[Any]) -> str:
    return f"{event[_OP]} in {event[_MODULE]}" if event[_MODULE] else str(event[_OP])


def _numbers(a: str, b: str) -> str:
    """Return the plain arguments that differ, as each side has them."""
    parts = a.split(", "), b.split(", ")
    if len(parts[0]) != len(parts[1]):
        return f"({a[:80]}) in A, ({b[:80]}) in B"
    differing = [(one, other) for one, other in zip(*parts, strict=True) if one != other]
    return ", ".join(f"{one} in A, {other} in B" for one, other in differing[:4])

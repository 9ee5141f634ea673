"""Tensors that hold another one's bytes: exchanged in pairs or rings, or written over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from everybit.diff.classes import DifferenceClass
from everybit.diff.partners import Partners, of_interest
from everybit.diff.roles import of_optimizer, tail

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from everybit.diff.difference import Difference
    from everybit.diff.stored import StoredTensor

_C = DifferenceClass
#: Classes that bytes of another tensor look like.
_LOOKS_LIKE: Final = frozenset(
    {_C.UNKNOWN, _C.REINITIALISED, _C.TRAINING, _C.RUN, _C.SCALE, _C.PERMUTED, _C.ELEMENT}
)


def find_swaps(
    left: list[Difference],
    pairs: Sequence[tuple[StoredTensor, StoredTensor]],
    group: Callable[..., Any],
) -> list[Any]:
    """Take the tensors out of `left` whose bytes in B are another one's in A, as groups.

    Args:
        left: Differences; those found are removed.
        pairs: All pairs that were compared.
        group: Makes a group of `found`, `differences`, `why` and `evidence`.
    """
    suspects = [each for each in left if each.found in _LOOKS_LIKE and each.b and not each.elements]
    if not suspects:
        return []
    held = of_interest([a for a, _ in pairs], [each.b for each in suspects if each.b])
    if len(held) < 2:
        return []
    partners = Partners(held)
    source: dict[str, str] = {}
    for each in suspects:
        assert each.b is not None
        found = partners.find(each.b)
        if found is not None and found.name != each.name:
            source[each.name] = found.name
            each.evidence["partner"] = found.name
    by_name = {each.name: each for each in suspects}
    groups = []
    for ring in _rings(source):
        members = [by_name[name] for name in ring]
        groups.append(
            group(
                found=_C.SWAPPED,
                differences=members,
                why=_why(ring, source),
                evidence={"partner": source[ring[0]], "partners": {k: source[k] for k in ring}},
            )
        )
    gone = {name for each in groups for name in (d.name for d in each.differences)}
    left[:] = [each for each in left if each.name not in gone]
    return groups


def _rings(source: dict[str, str]) -> list[list[str]]:
    """Return names that belong together: rings of exchange, and chains of copies."""
    leader: dict[str, str] = {}

    def lead(name: str) -> str:
        while leader.get(name, name) != name:
            name = leader[name]
        return name

    for name, other in source.items():
        leader[lead(name)] = lead(other)
    rings: dict[str, list[str]] = {}
    for name in source:
        rings.setdefault(lead(name), []).append(name)
    return list(rings.values())


def _why(ring: Sequence[str], source: dict[str, str]) -> str:
    first, other = ring[0], source[ring[0]]
    slots = _slots(first, other)
    if len(ring) == 2 and source.get(other) == first:
        return f"{first} and {other} are exchanged{slots}"
    if set(ring) == {source[name] for name in ring}:
        return f"{len(ring)} tensors hold each other's bytes, {first} those of {other}{slots}"
    return f"{first} in B holds the bytes of {other}{slots}"


def _slots(one: str, other: str) -> str:
    if not (of_optimizer(one) and of_optimizer(other)):
        return ""
    same = one.rpartition(".")[0] == other.rpartition(".")[0]
    if same:
        return ": the optimizer's slots of one parameter"
    return ": another parameter's state" if tail(one) == tail(other) else ""

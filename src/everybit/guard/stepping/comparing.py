"""Where one computation of a step parts from another: the first value, its elements, its bits."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from everybit.core.change import as_ranges
from everybit.core.grid import BLOCK_ROWS, ROW_BYTES, GridSums
from everybit.core.grid_locate import WordDamage, locate
from everybit.core.link import Link
from everybit.detect.place import owner_of
from everybit.guard.locate import healed_copy
from everybit.guard.stepping.trace import first_difference
from everybit.probe.state.place import Kind, Place, differing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from everybit.guard.stepping.attempt import Attempt
    from everybit.guard.stepping.trace import Event, Trace

    Bytes = NDArray[np.uint8]

#: What is written first in a step comes first; gradients were seen on their way already.
_ORDER: Final = (
    Kind.STATE,
    Kind.PARAMETER,
    Kind.BUFFER,
    Kind.GRADIENT,
    Kind.SETTING,
    Kind.OTHER,
    Kind.RNG,
)
_LINKS: Final = {
    Kind.STATE: Link.UPDATE,
    Kind.PARAMETER: Link.UPDATE,
    Kind.GRADIENT: Link.GRAD,
    Kind.RNG: Link.RNG,
}


def parting(right: Attempt, wrong: Attempt) -> dict[str, Any]:
    """Return the fields of a `StepMismatch` that tell the first value in which two part.

    Args:
        right: A computation that counts.
        wrong: One that came to other bits.
    """
    if wrong.error is not None:
        told = f"{type(wrong.error).__name__}: {wrong.error}"
        detail = {"detail": f"it raised {told:.120}"}
    else:
        detail = {}
    return _parting(right, wrong) | detail


def _parting(right: Attempt, wrong: Attempt) -> dict[str, Any]:
    if right.trace is not None and wrong.trace is not None:
        mine, theirs = first_difference(right.trace, wrong.trace)
        if mine is not None and theirs is not None:
            found = _of_event(mine, theirs, right.trace.held.get(mine.key))
            if mine.key[:2] == (Link.GRAD, "output"):
                taken = right.trace.consumers.get(mine.key[2]) or _before(right.trace, mine)
                return _passed_back(found, taken)
            return found
    if right.end is not None and wrong.end is not None:
        places = right.end.differs(wrong.end)
        if places:
            return _of_place(min(places, key=lambda place: _ORDER.index(place.kind)), len(places))
    if right.returned_otherwise(wrong):
        return {"link": Link.LOSS, "name": "what the step's function returned"}
    return {"link": Link.STATE, "name": "the way that the step took", "detail": "other calls"}


def _before(trace: Trace, event: Event) -> list[str]:
    """Return the module whose output's gradient came last before another one's.

    Where no module took an output as it was (a function lies between), its backward ran then.
    """
    earlier = trace.events[: trace.events.index(event)]
    names = [each.key[2] for each in earlier if each.key[:2] == (Link.GRAD, "output")]
    return [names[-1].partition("|")[0]] if names else []


def _passed_back(found: dict[str, Any], consumers: Sequence[str]) -> dict[str, Any]:
    """Name the module that passed a wrong gradient back, where one module took the output."""
    inner = [
        name
        for name in dict.fromkeys(consumers)
        if not any(other.startswith(f"{name}.") or not name for other in consumers if other != name)
    ]
    if len(inner) != 1 or not inner[0]:
        return found
    return found | {"module": inner[0], "name": f"{found['name']}, from {inner[0]}"}


def _of_place(place: Place, count: int) -> dict[str, Any]:
    owner = place.parameter or place.name
    name = f"{place.tensor} of {owner} ({place.optimizer})" if place.optimizer else owner
    if place.kind is Kind.GRADIENT:
        name = f"the gradient of {owner}"
    link = _LINKS.get(place.kind, Link.STATE)
    return {
        "link": link,
        "name": name if place.parameter else place.name,
        "module": place.module,
        "parameter": place.parameter,
        "optimizer": place.optimizer,
        "tensor": place.tensor if place.parameter else place.name,
        "device": place.device or None,
        "dtype": place.dtype,
        "shape": place.shape,
        "elements": place.elements,
        "num_elements": place.num_elements,
        "num_bits": place.num_bits,
        "changes": place.changes,
        "detail": place.detail or (f"{count} parts of the state differ" if count > 1 else ""),
    }


def _of_event(right: Event, wrong: Event, held: Bytes | None) -> dict[str, Any]:
    link, what, name, count = right.key
    whose, _, path = name.partition("|")
    found: dict[str, Any] = {"link": link, "device": right.device}
    if what == "gradient":
        found |= {"parameter": whose.rpartition(":")[2], "module": owner_of(whose)}
        found["name"] = f"the gradient of {whose}"
    elif what == "output":
        found["module"] = whose or None
        of = whose or "the model"
        part = f" ({path})" if path else ""
        grad = link is Link.GRAD
        found["name"] = f"{'the gradient at the ' if grad else 'the '}output of {of}{part}"
    elif what == "passed":
        found |= {"module": name, "name": f"the gradient that {name or 'the model'} passes back"}
    elif what == "input":
        found |= {"tensor": name, "name": f"input {name} of the model"}
    else:
        found["name"] = f"loss {name}" if name != "0" else "the loss"
    if count:
        found["detail"] = f"call {count + 1} of the step"
    if (right.dtype, right.shape) != (wrong.dtype, wrong.shape):
        return found | {"detail": f"{wrong.dtype}{list(wrong.shape)}"}
    found |= {"dtype": right.dtype, "shape": right.shape}
    return found | _elements(right, wrong, held)


def _elements(right: Event, wrong: Event, held: Bytes | None) -> dict[str, Any]:
    """Return which elements differ, from the bytes of the right value and the other's sums."""
    mine, theirs = right.on_host(), wrong.on_host()
    if isinstance(mine, bytes) and isinstance(theirs, bytes):
        size = max(1, len(mine) // max(1, prod(right.shape)))
        before, after = (np.frombuffer(raw, np.uint8) for raw in (mine, theirs))
        return differing(right.dtype, size, before, after)
    if not isinstance(mine, GridSums) or not isinstance(theirs, GridSums):
        return {}
    size = max(1, mine.num_bytes // max(1, prod(right.shape)))
    blocks = locate(mine, theirs)
    words: list[WordDamage] = []
    for block in blocks:
        words += block.words or ()
    if held is not None and all(block.words is not None for block in blocks):
        # To undo "right minus wrong" in the right bytes gives the wrong ones.
        away = [WordDamage(word=each.word, delta=-each.delta % 2**64) for each in words]
        found = healed_copy(held, away)
        if found is not None and _agrees(found, theirs):
            return differing(right.dtype, size, held, found)
    rows = sorted(
        row
        for block in blocks
        for row in (block.rows or range(block.block * BLOCK_ROWS, (block.block + 1) * BLOCK_ROWS))
    )
    count = prod(right.shape)
    spans = [(a * ROW_BYTES // size, min(-(-b * ROW_BYTES // size), count)) for a, b in _runs(rows)]
    return {"ranges": tuple(spans)}


def _agrees(data: Bytes, sums: GridSums) -> bool:
    found = GridSums.of(data.data)
    return bool(np.array_equal(found.rows, sums.rows) and np.array_equal(found.cols, sums.cols))


def _runs(rows: Sequence[int]) -> list[tuple[int, int]]:
    return as_ranges(rows)

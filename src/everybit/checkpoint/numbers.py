"""Numbers that a manifest records of a save: as plain ones, or refused before the save."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from everybit.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping


def whole_step(step: Any) -> int:
    """Return a step as a plain number; one of NumPy or torch counts.

    Raises:
        UsageError: It is no whole number, or below zero.
    """
    try:
        number = operator.index(step)
    except TypeError:
        number = -1
    if number < 0 or isinstance(step, bool):
        raise UsageError(
            "is no step: a whole number from 0 on counts updates", where=f"step={step!r}"
        )
    return number


def plain_counters(counters: Mapping[str, Any] | None) -> dict[str, int | float]:
    """Return counters as plain numbers.

    Raises:
        UsageError: One is no number.
    """
    found: dict[str, int | float] = {}
    for key, value in (counters or {}).items():
        one = getattr(value, "numel", lambda: 1)() == 1 and hasattr(value, "item")
        plain = value.item() if one else value
        if not isinstance(plain, int | float):
            raise UsageError("is no number", where=f"counters: {key}={value!r}")
        found[str(key)] = plain
    return found

"""A finding's evidence in lines: changed elements first, then the other facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from everybit.report.safe_text import number, printable, printable_message

#: Told as their own lines, or repeated elsewhere; not in the list of facts.
_TOLD: Final = {"changes", "num_elements", "num_bits"}


def changes_in(evidence: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the well-formed changed elements of some evidence; others are left to the facts."""
    changes = evidence.get("changes")
    if not isinstance(changes, list | tuple):
        return []
    return [change for change in changes if isinstance(change, Mapping) and "element" in change]


def bits_in(change: Mapping[str, Any]) -> list[int]:
    """Return the flipped bits of a changed element, counted from the least significant."""
    bits = change.get("bits", ())
    if not isinstance(bits, list | tuple):
        return []
    return [bit for bit in bits if isinstance(bit, int) and 0 <= bit < 128]


def describe_change(change: Mapping[str, Any], arrow: str = "->") -> str:
    """Return one changed element on a line.

    >>> describe_change({"element": 17, "before": 0.0123, "after": -4.2e36, "bits": [30, 31]})
    'element 17: 0.0123 -> -4.2e+36, bits 30, 31'
    """
    line = f"element {printable(change['element'], 24)}"
    if "before" in change or "after" in change:
        before, after = number(change.get("before", "?")), number(change.get("after", "?"))
        line = f"{line}: {before} {arrow} {after}"
    bits = bits_in(change)
    if not bits:
        return line
    listed = ", ".join(str(bit) for bit in bits)
    return f"{line}, {'bit' if len(bits) == 1 else 'bits'} {listed}"


def describe_rest(evidence: Mapping[str, Any], shown: int) -> str:
    """Return how many changed elements are not among the `shown` ones, or nothing."""
    total = evidence.get("num_elements")
    listed = len(changes_in(evidence))
    count = total if isinstance(total, int) and total > listed else listed
    return f"and {count - shown:,} more changed elements" if count > shown else ""


def facts_in(evidence: Mapping[str, Any], limit: int = 160) -> list[tuple[str, str]]:
    """Return the other evidence as names and values, each at most `limit` characters."""
    well_formed = bool(changes_in(evidence))
    return [
        (printable(name, 60).replace("_", " "), _value(value, limit))
        for name, value in evidence.items()
        if not (name in _TOLD and (well_formed or name != "changes"))
    ]


def _value(value: Any, limit: int) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(value)
    if value is None:
        return "none"
    if isinstance(value, str):
        return printable_message(value, limit)
    if isinstance(value, list | tuple) and all(isinstance(v, str | int | float) for v in value):
        return printable_message(", ".join(number(v) for v in value[:64]), limit)
    try:
        import json

        text = json.dumps(value, default=str)
    except (TypeError, ValueError, RecursionError):
        text = repr(type(value))
    return printable_message(text, limit)

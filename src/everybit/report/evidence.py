"""A finding's evidence in lines: changed elements first, then the other facts."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from everybit.report.safe_text import number, printable, printable_message

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Elements of a list or mapping that are looked at.
_MOST: Final = 64
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
        return _cut([printable_message(number(each), limit) for each in value[:_MOST]], len(value),
                    limit)  # fmt: skip
    if isinstance(value, Mapping):
        parts = [f"{_json(str(name))}: {_json(each)}" for name, each in _first(value.items())]
        return "{" + _cut(parts, len(value), limit - 2) + "}"
    if isinstance(value, list | tuple):
        return "[" + _cut([_json(each) for each in value[:_MOST]], len(value), limit - 2) + "]"
    return printable_message(_json(value), limit)


def _cut(parts: list[str], total: int, limit: int) -> str:
    """Return as many whole parts as have room, and how many more there are; one at least.

    >>> _cut(["alpha", "beta", "gamma"], 3, 22), _cut(["alpha", "beta", "gamma"], 3, 20)
    ('alpha, beta, gamma', 'alpha, beta, gamma')
    >>> _cut(["alpha", "beta", "gamma"], 9, 26)
    'alpha, beta and 7 more'
    """
    whole = ", ".join(parts)
    if len(parts) == total and len(whole) <= limit:
        return whole
    shown: list[str] = []
    for part in parts:
        left = total - len(shown) - 1
        tail = f" and {left:,} more" if left else ""
        if shown and len(", ".join([*shown, part])) + len(tail) > limit:
            break
        shown.append(part)
    left = total - len(shown)
    tail = f" and {left:,} more" if left else ""
    text = ", ".join(shown)
    if len(text) + len(tail) > limit:  # A single part, longer than there is room.
        text = printable_message(text, max(limit - len(tail), 8))
    return text + tail


def _first(items: Iterable[Any]) -> list[Any]:
    return list(islice(items, _MOST))


def _json(value: Any) -> str:
    try:
        import json

        text = json.dumps(value, default=str)
    except (TypeError, ValueError, RecursionError):
        text = repr(type(value))
    return printable_message(text, 4 * 160)

"""A finding's evidence in lines: changed elements first, then the other facts."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from everybit.report.safe_text import number, printable, printable_message

#: Elements of a list or mapping that are looked at.
_MOST: Final = 64
#: How deep a mapping is shown element by element.
_DEEPEST: Final = 6
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
        parts = [printable_message(number(each), limit) for each in value[:_MOST]]
        return _cut(parts, len(value), limit)
    return _nested(value, limit)


def _nested(value: Any, limit: int, depth: int = 0) -> str:
    """Return a mapping or list as JSON, cut behind an element where it is too long.

    >>> _nested({"a": [1, 2], "b": {"c": "x" * 40}, "d": 4}, 30)
    '{"a": [1, 2] and 2 more}'
    """
    room = max(limit - 2, 16)
    if isinstance(value, Mapping) and depth < _DEEPEST:
        parts = []
        for name, each in islice(value.items(), _MOST):
            key = _json(str(name), limit)
            parts.append(f"{key}: {_nested(each, room - len(key) - 2, depth + 1)}")
        return "{" + _cut(parts, len(value), room) + "}"
    if isinstance(value, list | tuple) and depth < _DEEPEST:
        parts = [_nested(each, room, depth + 1) for each in value[:_MOST]]
        return "[" + _cut(parts, len(value), room) + "]"
    return _json(value, max(limit, 16))


def _cut(parts: list[str], total: int, limit: int) -> str:
    """Return as many whole parts as have room, one at least, and how many more there are.

    >>> _cut(["alpha", "beta", "gamma"], 3, 18), _cut(["alpha", "beta", "gamma"], 9, 26)
    ('alpha, beta, gamma', 'alpha, beta and 7 more')
    """
    whole = ", ".join(parts)
    if len(parts) == total and len(whole) <= limit:
        return whole
    shown = parts[:1]
    length = sum(map(len, shown))
    for part in parts[1:]:
        length += len(part) + 2
        if length + len(_and_more(total - len(shown) - 1)) > limit:
            break
        shown.append(part)
    return ", ".join(shown) + _and_more(total - len(shown))


def _and_more(count: int) -> str:
    return f" and {count:,} more" if count else ""


def _json(value: Any, limit: int) -> str:
    try:
        import json

        text = json.dumps(value, default=str)
    except (TypeError, ValueError, RecursionError):
        text = repr(type(value))
    return printable_message(text, limit)

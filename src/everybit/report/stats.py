"""A verdict's numbers about the work itself, with their units."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from everybit.report.safe_text import number, printable

if TYPE_CHECKING:
    from collections.abc import Mapping


def describe_stats(stats: Mapping[str, Any]) -> list[str]:
    """Return one phrase a number; nested values are left to the JSON.

    >>> describe_stats({"bytes": 1536, "seconds": 0.41, "steps": 9000, "ranks": 1, "stopped": True})
    ['1.5 KiB', '0.41 s', '9,000 steps', '1 rank', 'stopped']
    """
    return [
        phrase
        for name, value in stats.items()
        if (phrase := _phrase(printable(name, 60), value)) is not None
    ]


def format_bytes(size: float) -> str:
    """Return a size in binary units.

    >>> format_bytes(0), format_bytes(268435456), format_bytes(1023 * 1024 + 512)
    ('0 B', '256 MiB', '1,024 KiB')
    """
    amount = float(size)
    unit = "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(amount) < 1024 or unit == "TiB":
            break
        amount /= 1024
    # Three digits, and never an exponent.
    shown = f"{amount:.3g}" if abs(amount) < 999.5 else f"{amount:,.0f}"
    return f"{shown} {unit}"


def format_share(share: float) -> str:
    """Return a share in percent, three digits at most.

    >>> format_share(0.0162), format_share(0.0004), format_share(1.8)
    ('1.62 %', '0.04 %', '180 %')
    """
    return f"{100 * share:.2f} %" if abs(share) < 0.1 else f"{100 * share:.0f} %"


def format_seconds(seconds: float) -> str:
    """Return a duration in the unit that fits it.

    >>> format_seconds(0.00042), format_seconds(12.3), format_seconds(3725)
    ('0.42 ms', '12.3 s', '1 h 2 min')
    """
    if not math.isfinite(seconds):
        return "unknown time"
    if abs(seconds) < 0.1:
        return f"{seconds * 1e3:.3g} ms"
    if abs(seconds) < 120:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} d {hours % 24} h"


def _phrase(name: str, value: Any) -> str | None:
    words = name.replace("_", " ")
    if isinstance(value, bool):
        return words if value else None
    if isinstance(value, str):
        return f"{words} {printable(value, 60)}"
    if not isinstance(value, int | float):
        return None
    for unit, form in (("bytes", format_bytes), ("seconds", format_seconds)):
        if name == unit:
            return form(value)
        if name.endswith(f"_{unit}"):
            return f"{words.removesuffix(unit).strip()} {form(value)}"
    if name == "overhead" or name.endswith("_share"):
        return f"{words} {format_share(value)}"
    if isinstance(value, int) and words.endswith("s"):
        return f"{value:,} {words[:-1] if value == 1 else words}"
    if isinstance(value, int):
        return f"{words} {value:,}"
    return f"{words} {number(value)}"

"""A changed element as its bits: sign, exponent and mantissa, the flipped ones marked."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, Final

from everybit.core.dtype import ITEMSIZE, decode
from everybit.report.evidence import bits_in
from everybit.report.markup import Markup, tag

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Exponent and mantissa bits of the floating-point types; above them lies the sign.
FLOAT_FIELDS: Final[dict[str, tuple[int, int]]] = {
    "float64": (11, 52),
    "float32": (8, 23),
    "float16": (5, 10),
    "bfloat16": (8, 7),
    "float8_e4m3fn": (4, 3),
    "float8_e4m3fnuz": (4, 3),
    "float8_e5m2": (5, 2),
    "float8_e5m2fnuz": (5, 2),
}
_CODES: Final = {
    "float64": "<d",
    "float32": "<f",
    "float16": "<e",
    "int64": "<q",
    "int32": "<i",
    "int16": "<h",
    "int8": "<b",
    "uint64": "<Q",
    "uint32": "<I",
    "uint16": "<H",
    "uint8": "<B",
}
_CELL: Final = 14
_ROW: Final = 32


def bit_fields(dtype: str) -> list[tuple[str, int, int]]:
    """Return the parts of an element as name, lowest bit, and number of bits, highest part first.

    >>> bit_fields("bfloat16")
    [('sign', 15, 1), ('exponent', 7, 8), ('mantissa', 0, 7)]
    """
    if dtype in FLOAT_FIELDS:
        exponent, mantissa = FLOAT_FIELDS[dtype]
        return [
            ("sign", exponent + mantissa, 1),
            ("exponent", mantissa, exponent),
            ("mantissa", 0, mantissa),
        ]
    size = 8 * ITEMSIZE[dtype]
    if dtype.startswith(("int", "qint")):
        return [("sign", size - 1, 1), ("value", 0, size - 1)]
    return [("value", 0, size)]


def raw_bits(dtype: str, value: Any) -> int | None:
    """Return the bits of a number as an integer, None where its text does not tell them all."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        if dtype == "bfloat16":
            raw = struct.pack("<f", value)[2:]
        elif dtype in _CODES:
            raw = struct.pack(_CODES[dtype], value if "float" in dtype else int(value))
        elif dtype in FLOAT_FIELDS:
            raw = next(
                bytes([code]) for code in range(256) if _same(decode(dtype, bytes([code])), value)
            )
        else:
            return None
        return int.from_bytes(raw, "little") if _same(decode(dtype, raw), value) else None
    except (struct.error, OverflowError, ValueError, StopIteration):
        return None


def draw_bits(change: Mapping[str, Any], dtype: object) -> Markup | None:
    """Return the picture of a changed element, None where dtype or bits are not on record."""
    flipped = set(bits_in(change))
    if not flipped or not isinstance(dtype, str) or dtype not in ITEMSIZE:
        return None
    size = 8 * ITEMSIZE[dtype]
    if max(flipped) >= size:
        return None
    found = raw_bits(dtype, change.get("after"))
    if found is None:
        before = raw_bits(dtype, change.get("before"))
        found = None if before is None else before ^ sum(1 << bit for bit in flipped)
    rows = -(-size // _ROW)
    columns = min(size, _ROW)
    listed = ", ".join(str(bit) for bit in sorted(flipped))
    return tag(
        "svg",
        list(_cells(dtype, size, flipped, found)),
        viewBox=f"0 0 {columns * _CELL + 8} {rows * 40}",
        width=columns * _CELL + 8,
        class_="bits",
        role="img",
        aria_label=f"{dtype}, flipped bits counted from the least significant: {listed}",
    )


def _cells(dtype: str, size: int, flipped: set[int], found: int | None) -> Iterator[Markup]:
    for name, lowest, count in bit_fields(dtype):
        for bit in range(lowest + count - 1, lowest - 1, -1):
            place = size - 1 - bit
            x = place % _ROW * _CELL + _nudge(name)
            y = place // _ROW * 40 + 2
            changed = bit in flipped
            title = f"bit {bit}, {name}"
            if found is not None:
                digit = found >> bit & 1
                title = f"{title}: {digit ^ 1} to {digit}" if changed else f"{title}: {digit}"
            yield tag(
                "g",
                tag("title", title),
                tag("rect", x=x, y=y, width=_CELL - 2, height=20, rx=2),
                None
                if found is None
                else tag("text", found >> bit & 1, x=x + _CELL / 2 - 1, y=y + 14.5),
                class_=f"{name} flipped" if changed else name,
            )
        first = size - lowest - count
        label = name if count > 3 else name[0]
        yield tag(
            "text",
            label,
            x=first % _ROW * _CELL + _nudge(name) + (0 if count > 1 else _CELL / 2 - 1),
            y=first // _ROW * 40 + 34,
            class_="field" if count > 1 else "field middle",
        )


def _nudge(name: str) -> int:
    # A little air between the parts.
    return {"sign": 0, "exponent": 3}.get(name, 6)


def _same(a: Any, b: Any) -> bool:
    return bool(a == b) and math.copysign(1, a) == math.copysign(1, b)

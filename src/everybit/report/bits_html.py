"""A changed element as its bits: sign, exponent and mantissa, the flipped ones marked."""

from __future__ import annotations

import math
import struct
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from everybit.core.dtype import ITEMSIZE, decode
from everybit.report.evidence import bits_in, changes_in
from everybit.report.markup import Markup, tag
from everybit.report.words import pair, say, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from everybit.core.finding import Finding

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
    if not flipped or not isinstance(dtype, str) or not _fits(dtype, flipped):
        return None
    found = raw_bits(dtype, change.get("after"))
    if found is None:
        before = raw_bits(dtype, change.get("before"))
        found = None if before is None else before ^ sum(1 << bit for bit in flipped)

    def cell(bit: int) -> Markup:
        digit = "" if found is None else found >> bit & 1
        return tag("b", digit, class_="flipped") if bit in flipped else tag("b", digit)

    return _picture(dtype, flipped, cell)


def draw_map(findings: Iterable[Finding]) -> list[Markup]:
    """Return, for each dtype, how often each bit of an element was hit, over all findings."""
    counts: dict[str, Counter[int]] = {}
    elements: Counter[str] = Counter()
    for finding in findings:
        dtype = finding.evidence.get("dtype")
        for change in changes_in(finding.evidence):
            bits = set(bits_in(change))
            if isinstance(dtype, str) and bits and _fits(dtype, bits):
                counts.setdefault(dtype, Counter()).update(bits)
                elements[dtype] += 1
    return [
        tag(
            "figure",
            tag("figcaption", tell("findings.map.of", dtype=dtype, n=elements[dtype])),
            _heat(dtype, count),
        )
        for dtype, count in counts.items()
    ]


def _heat(dtype: str, count: Counter[int]) -> Markup:
    top = max(count.values())

    def cell(bit: int) -> Markup:
        times = count[bit]
        if not times:
            return tag("b")
        # Four shades: how often a bit was hit, by the most frequent.
        return tag("b", times if times < 100 else "99+", class_=f"hit h{-(-4 * times // top)}")

    return _picture(dtype, set(count), cell)


def _fits(dtype: str, bits: Collection[int]) -> bool:
    return dtype in ITEMSIZE and max(bits) < 8 * ITEMSIZE[dtype]


def _picture(dtype: str, flipped: Collection[int], cell: Callable[[int], Markup]) -> Markup:
    told = say("findings.map.label", dtype=dtype, bits=", ".join(map(str, sorted(flipped))))
    fields = [
        tag(
            "span",
            tag("span", [cell(bit) for bit in range(low + count - 1, low - 1, -1)], class_="cells"),
            tag("span", tell(f"field.{name}"), class_="label"),
            class_=f"field {name}",
        )
        for name, low, count in bit_fields(dtype)
    ]
    return tag(
        "div",
        tag("span", fields, aria_hidden="true", class_="fields"),
        tag("span", pair(told), class_="hidden"),
        class_="bits",
    )


def _same(a: Any, b: Any) -> bool:
    return bool(a == b) and math.copysign(1, a) == math.copysign(1, b)

"""Element types by their canonical names, without torch: sizes, and raw bytes as numbers.

A name is torch's own without the `torch.` prefix (`float32`, `bfloat16`, `float8_e4m3fn`), whatever
the file format or framework calls it.
"""

from __future__ import annotations

import math
import struct
from typing import Final

#: Bytes an element, by canonical name.
ITEMSIZE: Final[dict[str, int]] = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "uint16": 2,
    "int16": 2,
    "uint32": 4,
    "int32": 4,
    "uint64": 8,
    "int64": 8,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "complex32": 4,
    "complex64": 8,
    "complex128": 16,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "float4_e2m1fn_x2": 1,
    "quint8": 1,
    "qint8": 1,
    "qint32": 4,
    "quint4x2": 1,
    "quint2x4": 1,
}

_STRUCT: Final[dict[str, str]] = {
    "bool": "<B",
    "uint8": "<B",
    "int8": "<b",
    "uint16": "<H",
    "int16": "<h",
    "uint32": "<I",
    "int32": "<i",
    "uint64": "<Q",
    "int64": "<q",
    "float16": "<e",
    "float32": "<f",
    "float64": "<d",
    "complex32": "<ee",
    "complex64": "<ff",
    "complex128": "<dd",
    "quint8": "<B",
    "qint8": "<b",
    "qint32": "<i",
    "quint4x2": "<B",
    "quint2x4": "<B",
    "float4_e2m1fn_x2": "<B",
}


# exponent bits, mantissa bits, bias, has infinity, "fnuz" (no negative zero: 0x80 is NaN)
_FLOAT8: Final[dict[str, tuple[int, int, int, bool, bool]]] = {
    "float8_e4m3fn": (4, 3, 7, False, False),
    "float8_e4m3fnuz": (4, 3, 8, False, True),
    "float8_e5m2": (5, 2, 15, True, False),
    "float8_e5m2fnuz": (5, 2, 16, False, True),
}

Number = int | float | complex


def decode(dtype: str, raw: bytes) -> Number:
    """Return the value of one little-endian element.

    Args:
        dtype: Canonical name.
        raw: Exactly `ITEMSIZE[dtype]` bytes. Quantised and packed types give their stored integer.

    Raises:
        KeyError: Unknown dtype.
        struct.error: Wrong number of bytes.

    >>> decode("bfloat16", bytes([0x80, 0x3F]))
    1.0
    >>> decode("float8_e4m3fn", bytes([0x7E]))
    448.0
    """
    if dtype == "bfloat16":
        return float(struct.unpack("<f", b"\0\0" + raw)[0])
    if dtype in _FLOAT8:
        return _decode_float8(raw[0], *_FLOAT8[dtype])
    if dtype == "float8_e8m0fnu":
        return math.nan if raw[0] == 255 else 2.0 ** (raw[0] - 127)
    parts = struct.unpack(_STRUCT[dtype], raw)
    if len(parts) == 2:
        return complex(*parts)
    value: Number = parts[0]
    return value


def _decode_float8(
    byte: int, exponent_bits: int, mantissa_bits: int, bias: int, has_inf: bool, fnuz: bool
) -> float:
    sign = -1.0 if byte >> 7 else 1.0
    exponent = byte >> mantissa_bits & (1 << exponent_bits) - 1
    mantissa = byte & (1 << mantissa_bits) - 1
    top = (1 << exponent_bits) - 1
    if fnuz:
        if byte == 0x80:
            return math.nan
    elif exponent == top:
        if has_inf:
            return math.nan if mantissa else sign * math.inf
        if mantissa == (1 << mantissa_bits) - 1:
            return math.nan
    if exponent == 0:
        return sign * float(mantissa) * 2.0 ** (1 - bias - mantissa_bits)
    return sign * (1 + mantissa / (1 << mantissa_bits)) * 2.0 ** (exponent - bias)


def json_number(value: Number) -> int | float | str:
    """Return `value` as strict JSON can hold it: non-finite and complex numbers become text.

    >>> json_number(float("-inf")), json_number(2), json_number(1 + 2j)
    ('-Infinity', 2, '(1+2j)')
    """
    if isinstance(value, complex):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value

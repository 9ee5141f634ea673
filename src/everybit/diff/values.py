"""Raw elements as numbers, in NumPy: values, and distances in units of the last place."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from everybit.core.dtype import ITEMSIZE, decode

#: Explicit mantissa bits of the float dtypes.
MANTISSA_BITS: Final[dict[str, int]] = {
    "float64": 52,
    "float32": 23,
    "float16": 10,
    "bfloat16": 7,
    "float8_e4m3fn": 3,
    "float8_e4m3fnuz": 3,
    "float8_e5m2": 2,
    "float8_e5m2fnuz": 2,
}
_NATIVE: Final = {
    "float64": "<f8",
    "float32": "<f4",
    "float16": "<f2",
    "int8": "i1",
    "int16": "<i2",
    "int32": "<i4",
    "int64": "<i8",
    "uint8": "u1",
    "uint16": "<u2",
    "uint32": "<u4",
    "uint64": "<u8",
    "bool": "u1",
}


def is_float(dtype: str) -> bool:
    """Return whether elements are floating-point numbers of one part."""
    return dtype in MANTISSA_BITS


def has_values(dtype: str) -> bool:
    """Return whether elements can be read as real numbers."""
    return dtype in _NATIVE or dtype in MANTISSA_BITS


def as_numbers(dtype: str, raw: bytes) -> Any:
    """Return elements as a float64 array; integers beyond 2^53 are rounded.

    >>> as_numbers("bfloat16", bytes([0x80, 0x3F, 0x00, 0xC0])).tolist()
    [1.0, -2.0]
    """
    import numpy as np

    if dtype in _NATIVE:
        with np.errstate(invalid="ignore"):
            return np.frombuffer(raw, _NATIVE[dtype]).astype(np.float64)
    if dtype == "bfloat16":
        words = np.frombuffer(raw, "<u2").astype("<u4")
        with np.errstate(invalid="ignore"):
            return (words << np.uint32(16)).view("<f4").astype(np.float64)
    return _table(dtype)[np.frombuffer(raw, np.uint8)]


def as_places(dtype: str, raw: bytes) -> Any:
    """Return float elements as numbers whose differences count units of the last place.

    Both zeros are 0, negative values fall below. Of 64-bit floats the last few bits of a large
    distance are rounded.
    """
    import numpy as np

    size = ITEMSIZE[dtype]
    words = np.frombuffer(raw, f"<u{size}")
    top = 8 * size - 1
    magnitude = (words & words.dtype.type((1 << top) - 1)).astype(np.float64)
    return np.where(words >> words.dtype.type(top), -magnitude, magnitude)


@cache
def _table(dtype: str) -> Any:
    import numpy as np

    return np.array([decode(dtype, bytes([byte])) for byte in range(256)], dtype=np.float64)

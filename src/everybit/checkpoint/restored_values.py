"""Single values that JSON has no form for: long integers, special floats, bytes and the like."""

from __future__ import annotations

import base64
import binascii
import struct
from typing import Any, Final

from everybit.checkpoint.restored_numpy import OddError

_MAX_INTEGER: Final = 10_000_000


def integer_of(text: Any) -> int:
    """Return a long integer, from its hexadecimal digits.

    Raises:
        OddError: It is none.
    """
    if not isinstance(text, str) or len(text) > _MAX_INTEGER:
        raise OddError("holds a long integer that is none")
    try:
        return int(text, 16)
    except ValueError:
        raise OddError("holds a long integer that is none") from None


def float_of(text: Any) -> float:
    """Return a float that JSON cannot hold, from its bits.

    Raises:
        OddError: It is none.
    """
    try:
        (value,) = struct.unpack(">d", bytes.fromhex(text))
    except (TypeError, ValueError, struct.error):
        raise OddError("holds a float that is none") from None
    return float(value)


def bytes_of(text: Any) -> bytes:
    """Return bytes, from base64.

    Raises:
        OddError: They are none.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise OddError("holds bytes that are none") from None


def complex_of(parts: list[Any]) -> complex:
    """Return a complex number, from its two parts.

    Raises:
        OddError: It is none.
    """
    if len(parts) != 2 or not all(isinstance(part, float) for part in parts):
        raise OddError("holds a complex number that is none")
    return complex(*parts)

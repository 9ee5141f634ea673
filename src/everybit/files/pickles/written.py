r"""Numbers and strings that protocol 0 writes as text, read as CPython's C unpickler reads them.

It hands them to C's own parsers, which end at a NUL byte, take hexadecimal and octal and skip
white space: `I0x10`, `I010` (eight) and `I5\0anything` are numbers to it. A reader that wants
decimals only stops there, and what follows goes unseen.
"""

from __future__ import annotations

import codecs
import re
import sys
from typing import Final

#: CPython refuses longer decimal integers too, since converting them takes quadratic time.
MAX_DIGITS: Final = 4300

_OF_C: Final = re.compile(rb"[ \t\v\f\r]*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)\Z")
_FLOAT: Final = re.compile(
    rb"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?|nan)\Z", re.IGNORECASE
)
_PLAIN_INTEGER: Final = re.compile(rb"(?:0|-?[1-9][0-9]*|0[01])\Z")
_PLAIN_FLOAT: Final = re.compile(rb"-?(?:[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?|inf|nan)\Z")
_ESCAPE: Final = re.compile(rb"\\([4-7][0-7][0-7]|.)", re.DOTALL)
_ESCAPES: Final = b"\\'\"abfnrtvx01234567\n"
_LONGEST: Final = sys.maxsize


def parse_escapes(text: bytes) -> bytes:
    """Return what is written between the quotes of STRING; raises `ValueError` at a bad escape."""
    if b"\\" not in text:
        return text
    # CPython warns of escapes that mean nothing; here nobody can do anything about them.
    return codecs.escape_decode(_ESCAPE.sub(_spell_out, text))[0]


def _spell_out(found: re.Match[bytes]) -> bytes:
    piece = found[1]
    if len(piece) == 3:  # an octal number of more than eight bits loses the upper ones
        return b"\\x%02x" % (int(piece, 8) & 0xFF)
    return found[0] if piece in _ESCAPES else b"\\" + found[0]


def is_plain_integer(line: bytes) -> bool:
    """Return whether a pickler could have written this integer so."""
    return _PLAIN_INTEGER.match(line) is not None


def is_plain_float(line: bytes) -> bool:
    """Return whether a pickler could have written this float so."""
    return _PLAIN_FLOAT.match(line) is not None


def has_other_base(line: bytes) -> bool:
    """Return whether a number is hexadecimal, octal, binary or written with underscores."""
    digits = line.strip().lstrip(b"+-")
    return b"_" in digits or (len(digits) > 2 and digits[:1] == b"0" and digits[1:2] != b".")


def parse_int(line: bytes) -> int | bool:
    """Return what INT reads from a line (without its newline); two characters can be a bool.

    Raises:
        ValueError: It is no number.
    """
    if not line:
        raise ValueError("an empty number")
    text = line.partition(b"\0")[0]
    value = _as_c_long(text)
    if value is None:
        return parse_integer(text, 0)
    return bool(value) if len(line) == 2 and value in (0, 1) else value


def _as_c_long(text: bytes) -> int | None:
    """Return what `strtol` makes of all of a text; None where it does not take all of it."""
    if not text:
        return 0
    if len(text) > MAX_DIGITS:
        return None
    found = _OF_C.match(text)
    if found is None:
        return None
    sign, digits = found.groups()
    if digits[:2] in (b"0x", b"0X"):
        value = int(digits, 16)
    else:
        value = int(digits, 8 if digits[:1] == b"0" else 10)
    value = -value if sign == b"-" else value
    return value if -_LONGEST - 1 <= value <= _LONGEST else None


def parse_integer(text: bytes, base: int) -> int:
    """Return a written integer up to its first NUL, as `PyLong_FromString` reads it.

    Raises:
        ValueError: It is none, or absurdly long.
    """
    text = text.partition(b"\0")[0]
    if len(text) > MAX_DIGITS:
        raise ValueError("an integer of too many digits")
    return int(text.decode("ascii"), base)


def parse_long(line: bytes) -> int:
    """Return what LONG reads from a line: an integer with an L behind it, or none."""
    if not line:
        raise ValueError("an empty number")
    return parse_integer(line[:-1] if line.endswith(b"L") else line, 0)


def parse_index(line: bytes) -> int:
    """Return the key that GET or PUT reads from a line; raises `ValueError` and `OverflowError`."""
    if not line:
        raise ValueError("an empty number")
    key = parse_integer(line, 10)
    if not -_LONGEST - 1 <= key <= _LONGEST:
        raise OverflowError("a memo key of more than 63 bits")
    return key


def parse_float(line: bytes) -> float:
    """Return what FLOAT reads from a line.

    Raises:
        ValueError: It is no number.
        OverflowError: It is finite as written and infinite as a double.
    """
    text = line.partition(b"\0")[0]
    if _FLOAT.match(text) is None:
        raise ValueError("no floating-point number")
    value = float(text)
    if value in (float("inf"), float("-inf")) and b"i" not in text.lower():
        raise OverflowError("a number too large for a double")
    return value

"""What opcodes read behind themselves: numbers, strings and bytes that they put on the stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everybit.files.pickles.nodes import Blob, Text
from everybit.files.pickles.written import (
    has_other_base,
    is_plain_float,
    is_plain_integer,
    parse_escapes,
    parse_float,
    parse_index,
    parse_int,
    parse_long,
)

if TYPE_CHECKING:
    from everybit.files.pickles.machine import Machine


def integer_line(m: Machine) -> None:
    """INT, which also writes booleans."""
    text = m.line()
    value = parse_int(text)
    if not is_plain_integer(text):
        odd_number(m, text, "an integer")
    m.push(value)


def long_line(m: Machine) -> None:
    """LONG."""
    text = m.line()
    m.push(parse_long(text))
    if not is_plain_integer(text.removesuffix(b"L")):
        odd_number(m, text, "an integer")


def float_line(m: Machine) -> None:
    """FLOAT."""
    text = m.line()
    m.push(parse_float(text))
    if not is_plain_float(text):
        odd_number(m, text, "a float")


def odd_number(m: Machine, text: bytes, what: str) -> None:
    """Note a number that other readers take for another one, or for none."""
    if b"\0" in text:
        m.odd(f"writes {what} with a NUL byte in it", trick=True)
    else:
        trick = has_other_base(text)
        m.odd(f"writes {what} as no pickler does", trick=trick)


def index_line(m: Machine) -> int:
    """Return the memo key of GET or PUT."""
    text = m.line()
    key = parse_index(text)
    if not text.isdigit():
        odd_number(m, text, "a memo key")
    return key


def string_line(m: Machine) -> None:
    """STRING."""
    text = m.line()
    if len(text) < 2 or text[0] != text[-1] or text[:1] not in (b"'", b'"'):
        raise m.error("holds a string without quotes", m.at)
    m.push(Text(parse_escapes(text[1:-1])))


def blob(m: Machine, length: int) -> None:
    """BINBYTES and its kin."""
    start = m.at
    m.push(Blob(m.take(length, framed=False), start))


def byte_array(m: Machine, length: int) -> None:
    """BYTEARRAY8."""
    start = m.at
    m.push(Blob(m.take(length, framed=False), start, mutable=True))


def text(m: Machine, length: int) -> None:
    """BINUNICODE and its kin."""
    # "surrogatepass", as every unpickler does; the rest cannot be decoded by them either.
    m.push(m.take(length).decode("utf-8", "surrogatepass"))

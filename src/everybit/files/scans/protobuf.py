"""Protocol-buffer messages by their wire format: fields and where they lie, nothing copied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.files.source import ByteSource

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_BUFFER_BYTES: Final = 64 * 1024


class WireError(Exception):
    """The bytes are no message."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its number, its value where it is a number, and where its bytes lie."""

    number: int
    wire: int
    value: int
    start: int
    end: int


class Reader:
    """A buffered reader of varints and fields.

    Args:
        source: The file.
        most: Fields that are read before it gives up.
    """

    def __init__(self, source: ByteSource, *, most: int) -> None:
        self._source = source
        self._base = 0
        self._data = b""
        self.left = most

    def fields(self, start: int, end: int) -> Iterator[Field]:
        """Yield the fields of the message in `[start, end)`.

        Raises:
            WireError: It is none, or there are too many.
        """
        at = start
        while at < end:
            self.left -= 1
            if self.left < 0:
                raise WireError("it has too many fields")
            key, at = self._varint(at, end)
            number, wire = key >> 3, key & 7
            if not 0 < number < 1 << 29:
                raise WireError("it has a field of no number")
            if wire == _VARINT:
                value, stop = self._varint(at, end)
                yield Field(number, wire, value, at, stop)
            elif wire == _BYTES:
                length, at = self._varint(at, end)
                stop = at + length
                if stop > end:
                    raise WireError("a field reaches beyond the message")
                yield Field(number, wire, length, at, stop)
            elif wire in (_FIXED64, _FIXED32):
                stop = at + (8 if wire == _FIXED64 else 4)
                if stop > end:
                    raise WireError("a field reaches beyond the message")
                yield Field(number, wire, 0, at, stop)
            else:
                raise WireError(f"it has a field of wire type {wire}")
            at = stop

    def text(self, field: Field, most: int = 4096) -> str:
        """Return a field's bytes as text, up to a length."""
        end = min(field.end, field.start + most)
        return self._source.read(field.start, end - field.start).decode("utf-8", "replace")

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        value = 0
        for shift in range(0, 70, 7):
            if at >= end:
                raise WireError("it ends within a number")
            byte = self._byte(at)
            at += 1
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return value, at
        raise WireError("it has a number of more than 64 bits")

    def _byte(self, at: int) -> int:
        place = at - self._base
        if not 0 <= place < len(self._data):
            self._base, place = at, 0
            self._data = self._source.read(at, _BUFFER_BYTES)
            if not self._data:
                raise WireError("it ends too early")
        return self._data[place]

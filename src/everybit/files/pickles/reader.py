"""Bytes, numbers and lines out of a pickle, and the errors about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everybit.files.damage import MalformedError, malformed

if TYPE_CHECKING:
    import struct


class PickleEndsError(MalformedError):
    """The bytes end before the pickle does; with more of them it may be whole."""


class Reader:
    """A place in a pickle, and how its pieces are read from there.

    Args:
        data: The pickle.
        at: Offset of the next byte.
    """

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def error(self, what: str, position: int) -> MalformedError:
        """Return the error for something wrong at an offset of the pickle."""
        return malformed(f"the pickle {what}", evidence={"position": position})

    def ended(self, what: str, position: int) -> PickleEndsError:
        """Return the error for bytes that end too early."""
        return PickleEndsError(self.error(what, position).damage)

    def take(self, length: int) -> bytes:
        """Return the next bytes, all of them or an error."""
        end = self.at + length
        if end > len(self.data):
            left = len(self.data) - self.at
            raise self.ended(f"wants {length} bytes where {left} are left", self.at)
        piece = self.data[self.at : end]
        self.at = end
        return piece

    def number(self, layout: struct.Struct) -> Any:
        """Return the next number of a fixed layout."""
        return layout.unpack(self.take(layout.size))[0]

    def line(self) -> bytes:
        """Return the next line, without its newline."""
        end = self.data.find(b"\n", self.at)
        if end < 0:
            raise self.ended("ends within a line", self.at)
        piece = self.data[self.at : end]
        self.at = end + 1
        return piece

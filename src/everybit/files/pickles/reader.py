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

    No pickler lets a line or an operand reach across the end of a frame. Where one does, loaders
    differ: from bytes in memory it is read whole, while the C unpickler that reads a file drops
    what is left of the frame and starts anew behind it.

    Args:
        data: The pickle.
        at: Offset of the next byte.
        piecewise: Read as the C unpickler reads a file.
    """

    # No pickle of the old protocols has a frame, and none that a pickler wrote crosses one.
    frame_end = 0
    crossed_at = -1

    def __init__(self, data: bytes, at: int = 0, *, piecewise: bool = False) -> None:
        self.data = data
        self.at = at
        self.piecewise = piecewise

    def error(self, what: str, position: int) -> MalformedError:
        """Return the error for something wrong at an offset of the pickle."""
        return malformed(f"the pickle {what}", evidence={"position": position})

    def ended(self, what: str, position: int) -> PickleEndsError:
        """Return the error for bytes that end too early."""
        return PickleEndsError(self.error(what, position).damage)

    def cross(self) -> None:
        """Note that something reaches across the end of the frame."""
        if self.crossed_at < 0:
            self.crossed_at = self.at
        if self.piecewise:
            self.at = self.frame_end

    def enter_frame(self, length: int) -> None:
        """Remember where a frame ends."""
        if self.at < self.frame_end < self.at + length:
            self.cross()
        self.frame_end = max(self.frame_end, self.at + length)

    def take(self, length: int, *, framed: bool = True) -> bytes:
        """Return the next bytes, all of them or an error.

        Args:
            length: How many.
            framed: Loaders differ about them at the end of a frame; not for byte strings.
        """
        if framed and self.at < self.frame_end < self.at + length:
            self.cross()
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
        if self.at < self.frame_end and not self.at <= end < self.frame_end:
            self.cross()
            end = self.data.find(b"\n", self.at)
        if end < 0:
            raise self.ended("ends within a line", self.at)
        piece = self.data[self.at : end]
        self.at = end + 1
        return piece

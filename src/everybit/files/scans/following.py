"""A pickle that is longer than memory should hold, or that raw arrays interrupt, as one stream.

joblib writes the elements of an array into the middle of a pickle, right behind the BUILD of the
object that describes them. And a pickle of large arrays is mostly bytes that say nothing about
what loading does. Both are left out here: what comes back is the pickle without them, and where
each of its parts stands in the file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from everybit.files.pickles.machine import Machine
from everybit.files.pickles.opcodes import MAX_STEPS, follow
from everybit.files.pickles.raw_arrays import OBJECTS, is_wrapper, measure_array
from everybit.files.pickles.reader import PickleEndsError

if TYPE_CHECKING:
    from everybit.files.damage import MalformedError
    from everybit.files.pickles.nodes import Node
    from everybit.files.source import ByteSource

#: What marks a pickle that joblib may have interrupted.
WRAPPER: Final = b"NumpyArrayWrapper"
_LARGE_BYTES: Final = 1024 * 1024
_FIRST_PIECE_BYTES: Final = 4 * 1024 * 1024
#: Of the opcodes that stay; a longer pickle is not looked into.
MAX_KEPT_BYTES: Final = 256 * 1024 * 1024


@dataclass(slots=True, kw_only=True)
class Followed:
    """One pickle without the bytes that say nothing about what loading it does.

    Attributes:
        parts: `(offset in the file, bytes)`, in order.
        arrays: `[start, end)` of raw elements, and of large strings, that were left out.
        objects: Where pickles of arrays of objects begin in it.
        end: Offset after the last opcode that was followed.
        num_kept: Bytes of all parts.
        error: Why it could not be followed to STOP.
    """

    parts: list[tuple[int, bytes]] = field(default_factory=list)
    arrays: list[tuple[int, int]] = field(default_factory=list)
    objects: list[tuple[int, int]] = field(default_factory=list)
    end: int = 0
    num_kept: int = 0
    error: MalformedError | None = None

    def keep(self, start: int, piece: bytes) -> None:
        """Add a part that stands at an offset of the file."""
        if piece:
            self.parts.append((start, piece))
            self.num_kept += len(piece)

    @property
    def data(self) -> bytes:
        """The pickle, put together."""
        return b"".join(piece for _, piece in self.parts)

    def offset_of(self, position: int) -> int:
        """Return where a byte of `data` stands in the file."""
        for start, piece in self.parts:
            if position < len(piece):
                return start + position
            position -= len(piece)
        return self.end


class _InterruptError(Exception):
    """Raw elements begin at the machine's place."""


class _Follower(Machine):
    """A machine that stops where raw elements begin, and steps over large strings.

    Args:
        data: The first bytes.
        base: Where they stand in the file.
        size: Size of the file.
        joblib: Raw elements may interrupt it.
    """

    def __init__(self, data: bytes, base: int, size: int, *, joblib: bool) -> None:
        super().__init__(data, forgiving=True)
        self.joblib = joblib
        self.base = base
        self.size = size
        self.cut: list[tuple[int, int, bytes]] = []
        self.wrapper: Node = None

    def build(self) -> None:
        """BUILD, which interrupts where it completes a wrapper of joblib's."""
        super().build()
        target = self.top()
        if self.joblib and is_wrapper(target):
            self.wrapper = target.state
            raise _InterruptError

    def take(self, length: int, *, framed: bool = True) -> bytes:
        """Return the next bytes; none of a large string, whose header is noted as an empty one."""
        start = self.at
        if length <= _LARGE_BYTES or self.base + start + length > self.size:
            return super().take(length, framed=framed)
        width = 8 if self.data[start - 9 : start - 8] in (b"\x8d", b"\x8e", b"\x96") else 4
        head = self.data[start - width - 1 : start - width] + bytes(width)
        self.cut.append((start - width - 1, start + length, head))
        self.at = start + length
        return b""


def follow_pickle(source: ByteSource, start: int = 0, *, joblib: bool = True) -> Followed:
    """Follow one pickle from an offset to its STOP, or as far as an unpickler would come.

    Args:
        source: The file.
        start: Where it begins.
        joblib: Raw elements may interrupt it; they do not in an array of objects.
    """
    piece = _FIRST_PIECE_BYTES
    while True:
        found = _attempt(source, start, piece, joblib=joblib)
        if found is not None:
            return found
        piece *= 4


def _attempt(source: ByteSource, start: int, piece: int, *, joblib: bool) -> Followed | None:
    """Follow a pickle in windows of a size; None where one opcode does not fit into a window."""
    machine = _Follower(source.read(start, piece), start, source.size, joblib=joblib)
    found = Followed()
    begin, steps = 0, 0
    while True:
        error: MalformedError | None = None
        interrupted = False
        try:
            error, used = follow(machine, MAX_STEPS - steps)
            steps += used
        except _InterruptError:
            interrupted = True
        reach = machine.cut[-1][1] if machine.cut else 0
        past = machine.at > len(machine.data) or reach == machine.at == len(machine.data)
        more = machine.base + len(machine.data) < source.size
        if isinstance(error, PickleEndsError) and not past and more:
            if piece >= MAX_KEPT_BYTES:
                found.error = error
                return found
            return None
        for at, end, head in machine.cut:
            found.keep(machine.base + begin, machine.data[begin:at])
            found.keep(machine.base + at, head)
            found.arrays.append((machine.base + at + len(head), machine.base + end))
            begin = end
        machine.cut.clear()
        if begin < machine.at:
            found.keep(machine.base + begin, machine.data[begin : machine.at])
        found.end = machine.base + machine.at
        if past and isinstance(error, PickleEndsError):
            skip_to = machine.base + machine.at
        elif interrupted:
            measured = measure_array(machine.wrapper)
            if measured is None:
                found.error = machine.error("describes an array that cannot be", machine.at)
                return found
            size, padded = measured
            if size == OBJECTS:
                skip_to = follow_pickle(source, found.end, joblib=False).end
                found.objects.append((found.end, skip_to))
            else:
                raw = _raw_range(source, found.end, size, padded=padded)
                if raw is None:
                    found.error = machine.ended("ends within an array", machine.at)
                    return found
                found.arrays.append(raw)
                skip_to = raw[1]
        else:
            found.error = error
            return found
        if found.num_kept > MAX_KEPT_BYTES:
            found.error = machine.error("is too long to be followed", machine.at)
            return found
        machine.frame_end = 0
        begin = skip_to - machine.base
        if begin < len(machine.data):
            machine.at = begin
            continue
        machine.base, machine.data, machine.at = skip_to, source.read(skip_to, piece), 0
        begin = 0


def _raw_range(source: ByteSource, at: int, size: int, *, padded: bool) -> tuple[int, int] | None:
    """Return where the elements of an array lie; None where the file ends before them."""
    if padded:
        # One byte says how many of padding follow.
        at += 1 + int.from_bytes(source.read(at, 1), "little")
    return (at, at + size) if at + size <= source.size else None

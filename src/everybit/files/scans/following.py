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
from everybit.files.pickles.nodes import Persistent
from everybit.files.pickles.opcodes import MAX_STEPS, follow
from everybit.files.pickles.raw_arrays import ARRAY, OBJECTS, is_wrapper, measure_array
from everybit.files.pickles.reader import PickleEndsError

if TYPE_CHECKING:
    from everybit.files.damage import MalformedError
    from everybit.files.pickles.nodes import Node
    from everybit.files.source import ByteSource

_LARGE_BYTES: Final = 1024 * 1024
#: No larger than a string that is left out, so that none of those lies in a window whole.
_PIECE_BYTES: Final = _LARGE_BYTES
#: Of the opcodes that stay; a longer pickle is not looked into.
MAX_KEPT_BYTES: Final = 256 * 1024 * 1024


@dataclass(slots=True, kw_only=True)
class Followed:
    """One pickle without the bytes that say nothing about what loading it does.

    Attributes:
        parts: `(offset in the file, bytes)`, in order.
        arrays: `[start, end)` of raw elements, and of large strings, that were left out.
        strings: Of these the large strings, by the offset in `data` at which each would stand.
        objects: Where pickles of arrays of objects begin in it.
        end: Offset after the last opcode that was followed.
        num_kept: Bytes of all parts.
        error: Why it could not be followed to STOP.
        too_long: It was given up at a bound.
        odd_array: It was given up at raw elements, of which nobody but NumPy knows the length.
    """

    parts: list[tuple[int, bytes]] = field(default_factory=list)
    arrays: list[tuple[int, int]] = field(default_factory=list)
    strings: dict[int, tuple[int, int]] = field(default_factory=dict)
    objects: list[tuple[int, int]] = field(default_factory=list)
    end: int = 0
    num_kept: int = 0
    error: MalformedError | None = None
    too_long: bool = False
    odd_array: bool = False

    def broken(self, machine: Machine, *, too_long: bool) -> Followed:
        """Return itself, given up at a bound."""
        self.error, self.too_long = machine.error("is too long to be followed", 0), too_long
        return self

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
        self.stepped = False
        self.wrapper: Node = None

    def move(self, source: ByteSource, start: int, piece: int) -> None:
        """Go on at an offset of the file, with a new window."""
        self.base, self.data, self.at = start, source.read(start, piece), 0
        self.frame_end = 0

    def build(self) -> None:
        """BUILD, which interrupts where it completes a wrapper of joblib's."""
        super().build()
        target = self.top()
        if self.joblib and is_wrapper(target):
            self.wrapper = target.state
            self.stack[-1] = Persistent(ARRAY)
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
    machine = _Follower(source.read(start, _PIECE_BYTES), start, source.size, joblib=joblib)
    found = Followed()
    piece, steps = _PIECE_BYTES, 0
    while True:
        begin = machine.at
        error: MalformedError | None = None
        interrupted = False
        try:
            error, used = follow(machine, MAX_STEPS - steps)
            steps += used
        except _InterruptError:
            interrupted = True
        begin = _keep_cuts(machine, found, begin)
        end = machine.at
        if isinstance(error, PickleEndsError) and end <= len(machine.data) and not machine.stepped:
            end = machine.begun
            if machine.base + len(machine.data) < source.size and piece < MAX_KEPT_BYTES:
                # An opcode reaches beyond the window, which begins with it from now on.
                found.keep(machine.base + begin, machine.data[begin:end])
                piece = _PIECE_BYTES if end else piece * 4
                machine.move(source, machine.base + end, piece)
                if found.num_kept > MAX_KEPT_BYTES:
                    return found.broken(machine, too_long=True)
                continue
            end = machine.at
        found.keep(machine.base + begin, machine.data[begin:end])
        found.end = machine.base + end
        if interrupted:
            skip_to = _pass_over(source, machine, found)
            if skip_to is None:
                return found
        elif isinstance(error, PickleEndsError) and machine.stepped:
            skip_to = found.end
        else:
            found.error = error
            return found
        if found.num_kept > MAX_KEPT_BYTES:
            return found.broken(machine, too_long=True)
        machine.frame_end = 0
        if skip_to - machine.base < len(machine.data):
            machine.at = skip_to - machine.base
        else:
            machine.move(source, skip_to, piece)


def _keep_cuts(machine: _Follower, found: Followed, begin: int) -> int:
    """Keep what stands before large strings, each with an empty header; return where to go on."""
    for at, end, head in machine.cut:
        found.keep(machine.base + begin, machine.data[begin:at])
        found.keep(machine.base + at, head)
        string = (machine.base + at + len(head), machine.base + end)
        found.arrays.append(string)
        found.strings[found.num_kept] = string
        begin = end
    # The window ends within, or right behind, a string that was stepped over.
    machine.stepped = bool(machine.cut) and machine.cut[-1][1] == machine.at >= len(machine.data)
    machine.cut.clear()
    return begin


def _pass_over(source: ByteSource, machine: _Follower, found: Followed) -> int | None:
    """Return where the pickle goes on behind an array's raw elements; None where it does not."""
    measured = measure_array(machine.wrapper)
    if measured is None:
        found.error = machine.error("describes an array that cannot be", machine.at)
        found.odd_array = True
        return None
    size, padded = measured
    if size == OBJECTS:
        end = follow_pickle(source, found.end, joblib=False).end
        found.objects.append((found.end, end))
        return max(end, found.end)
    raw = _raw_range(source, found.end, size, padded=padded)
    if raw is None:
        found.error = machine.ended("ends within an array", machine.at)
        return None
    found.arrays.append(raw)
    return raw[1]


def _raw_range(source: ByteSource, at: int, size: int, *, padded: bool) -> tuple[int, int] | None:
    """Return where the elements of an array lie; None where the file ends before them."""
    if padded:
        # One byte says how many of padding follow.
        at += 1 + int.from_bytes(source.read(at, 1), "little")
    return (at, at + size) if at + size <= source.size else None

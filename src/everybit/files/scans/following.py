"""A pickle that is longer than memory should hold, or that raw arrays interrupt, as one stream.

joblib writes the elements of an array into the middle of a pickle, right behind the BUILD of the
object that describes them. And a pickle of large arrays is mostly bytes that say nothing about
what loading does. Both are left out here: what comes back is the pickle without them, and where
each of its parts stands in the file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from everybit.files.pickles.machine import Machine
from everybit.files.pickles.nodes import Call, DictNode, Global, TupleNode
from everybit.files.pickles.opcodes import MAX_STEPS, follow
from everybit.files.pickles.reader import PickleEndsError
from everybit.files.pickles.torch_values import as_text

if TYPE_CHECKING:
    from everybit.files.damage import MalformedError
    from everybit.files.pickles.nodes import Node
    from everybit.files.source import ByteSource

#: What marks a pickle that joblib may have interrupted.
WRAPPER: Final = b"NumpyArrayWrapper"
_WRAPPER_MODULES: Final = frozenset(
    {"joblib.numpy_pickle", "sklearn.externals.joblib.numpy_pickle"}
)
_LARGE_BYTES: Final = 1024 * 1024
_FIRST_PIECE_BYTES: Final = 4 * 1024 * 1024
#: Of the opcodes that stay; a longer pickle is not looked into.
MAX_KEPT_BYTES: Final = 256 * 1024 * 1024
_MAX_FIELDS: Final = 1000


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
    """

    def __init__(self, data: bytes, base: int, size: int) -> None:
        super().__init__(data)
        self.base = base
        self.size = size
        self.cut: list[tuple[int, int, bytes]] = []
        self.wrapper: dict[str, Node] = {}

    def build(self) -> None:
        """BUILD, which interrupts where it completes a wrapper of joblib's."""
        super().build()
        target = self.top()
        if isinstance(target, Call) and _is_wrapper(target):
            self.wrapper = _fields(target.state)
            raise _InterruptError

    def take(self, length: int) -> bytes:
        """Return the next bytes; none of a large string, whose header is noted as an empty one."""
        start = self.at
        if length <= _LARGE_BYTES or self.base + start + length > self.size:
            return super().take(length)
        width = 8 if self.data[start - 9 : start - 8] in (b"\x8d", b"\x8e", b"\x96") else 4
        head = self.data[start - width - 1 : start - width] + bytes(width)
        self.cut.append((start - width - 1, start + length, head))
        self.at = start + length
        return b""


def _is_wrapper(call: Call) -> bool:
    function = call.function
    if isinstance(function, Global) and function.qualified == "copyreg._reconstructor":
        function = call.arguments[0] if call.arguments else None
    return (
        isinstance(function, Global)
        and function.name == "NumpyArrayWrapper"
        and function.module in _WRAPPER_MODULES
    )


def _fields(state: Node) -> dict[str, Node]:
    pairs = state.pairs if isinstance(state, DictNode) else []
    named = ((as_text(key), value) for key, value in pairs)
    return {key: value for key, value in named if isinstance(key, str)}


def follow_pickle(source: ByteSource, start: int = 0) -> Followed:
    """Follow one pickle from an offset to its STOP, or as far as an unpickler would come."""
    piece = _FIRST_PIECE_BYTES
    while True:
        found = _attempt(source, start, piece)
        if found is not None:
            return found
        piece *= 4


def _attempt(source: ByteSource, start: int, piece: int) -> Followed | None:
    """Follow a pickle in windows of a size; None where one opcode does not fit into a window."""
    machine = _Follower(source.read(start, piece), start, source.size)
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
            wrapper = machine.wrapper
            raw = _raw_range(source, found.end, wrapper)
            if raw is None:
                found.error = machine.error("describes an array that cannot be", machine.at)
                return found
            skip_to = raw[1]
            if _holds_objects(wrapper):
                inner = follow_pickle(source, raw[0])
                found.objects.append((raw[0], inner.end))
                skip_to = inner.end
            else:
                found.arrays.append(raw)
        else:
            found.error = error
            return found
        if found.num_kept > MAX_KEPT_BYTES:
            found.error = machine.error("is too long to be followed", machine.at)
            return found
        begin = skip_to - machine.base
        if begin < len(machine.data):
            machine.at = begin
            continue
        machine.base, machine.data, machine.at = skip_to, source.read(skip_to, piece), 0
        begin = 0


def _holds_objects(wrapper: dict[str, Node]) -> bool:
    """Return whether a pickle stands in place of the elements: also of records with an object."""
    waiting, seen = [wrapper.get("dtype")], 0
    while waiting and seen < _MAX_FIELDS:
        node = waiting.pop()
        seen += 1
        if not isinstance(node, Call):
            continue
        if _dtype_code(node).lstrip("<>|=").startswith("O"):
            return True
        for item in node.state.items if isinstance(node.state, TupleNode) else []:
            if isinstance(item, DictNode):
                fields = [value for _, value in item.pairs]
                waiting += [f.items[0] for f in fields if isinstance(f, TupleNode) and f.items]
    return False


def _raw_range(source: ByteSource, at: int, wrapper: dict[str, Node]) -> tuple[int, int] | None:
    """Return where the elements lie that a wrapper announces; None where it does not say."""
    if _holds_objects(wrapper):
        return at, at
    shape, size = wrapper.get("shape"), _itemsize(wrapper.get("dtype"))
    if not isinstance(shape, TupleNode) or size is None:
        return None
    if not all(type(n) is int and 0 <= n < 1 << 48 for n in shape.items) or len(shape.items) > 64:
        return None
    if type(wrapper.get("numpy_array_alignment_bytes")) is int:
        # One byte says how many of padding follow.
        at += 1 + int.from_bytes(source.read(at, 1), "little")
    end = at + size * math.prod(shape.items)
    return (at, end) if end <= source.size else None


def _dtype_code(node: Node) -> str:
    if isinstance(node, Call) and node.name == "numpy.dtype" and node.arguments:
        code = as_text(node.arguments[0])
        return code if isinstance(code, str) else ""
    return ""


def _itemsize(node: Node) -> int | None:
    """Return the bytes an element of a dtype that NumPy pickled; None where it does not say."""
    code = _dtype_code(node).lstrip("<>|=")
    digits = code[1:].partition("[")[0]
    if code[:1] in ("M", "m") and not digits:
        digits = "8"
    if not digits.isdigit() or len(digits) > 12:
        return None
    return (4 if code[:1] == "U" else 1) * int(digits)

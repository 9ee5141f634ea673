"""Pickles that follow each other in a file, read one at a time: where each of them ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.files.damage import MalformedError, TooLargeError, malformed
from everybit.files.pickles.machine import Machine
from everybit.files.pickles.opcodes import MAX_STEPS, follow, interpret
from everybit.files.pickles.raw_arrays import ArrayMachine, names_wrapper
from everybit.files.pickles.reader import PickleEndsError

if TYPE_CHECKING:
    from everybit.files.pickles.nodes import Node, Pickle
    from everybit.files.source import ByteSource

_FIRST_BYTES: Final = 64 * 1024
_MANY_BYTES: Final = 1024 * 1024
#: A longer pickle is not interpreted.
MAX_PICKLE_BYTES: Final = 64 * 1024 * 1024


class Placed:
    """A pickle and its place in the file."""

    __slots__ = ("end", "pickle", "start")

    def __init__(self, pickle: Pickle, start: int, end: int) -> None:
        self.pickle = pickle
        self.start = start
        self.end = end


class Stream:
    """Pickles that follow each other, as far as they can be followed.

    Attributes:
        pickles: In order. The last one has an `error` where it cannot be followed to its STOP: it
            then says what an unpickler does before it fails.
        others: Other readings of the same bytes, where loaders differ, and pickles within: as the
            C unpickler reads a file piece by piece, and as joblib reads and does not read raw
            arrays. What they reach counts too.
        end: Offset after the last STOP; 0 without one.
        size: Number of bytes that were given.
    """

    __slots__ = ("end", "others", "pickles", "size")

    def __init__(
        self, pickles: tuple[Pickle, ...], end: int, size: int, others: tuple[Pickle, ...]
    ) -> None:
        self.pickles = pickles
        self.end = end
        self.size = size
        self.others = others

    @property
    def error(self) -> MalformedError | None:
        """Why the last pickle cannot be followed; None where the bytes end with a STOP."""
        return self.pickles[-1].error if self.pickles else None

    @property
    def whole(self) -> tuple[Pickle, ...]:
        """The pickles that end with their STOP."""
        return tuple(pickle for pickle in self.pickles if pickle.error is None)


def read_pickles(
    data: bytes, *, max_steps: int | None = None, raw_arrays: bool = False, keeps_memo: bool = True
) -> Stream:
    """Follow all pickles in some bytes, each as any loader would, and the start of a broken one.

    Nothing is raised: what cannot be followed is the last pickle's `error` (a `TooLargeError`
    where there are more opcodes than this release follows). Offsets in the pickles are offsets in
    `data`. Time and memory are linear in `data`.

    Args:
        data: The bytes; no more than a caller is willing to hold.
        max_steps: Most opcodes to follow, in all pickles together; `MAX_STEPS` where None.
        raw_arrays: The bytes are as joblib writes them, with arrays between the opcodes; not where
            a caller has cut these out.
        keeps_memo: One unpickler may read them all, so that a pickle can recall what one before
            it stored; not where they follow each other by chance.
    """
    steps = MAX_STEPS if max_steps is None else max_steps
    pickles, end = _follow_all(data, steps, keeps_memo=keeps_memo)
    others: list[Pickle] = []
    for pickle in pickles:
        if pickle.crosses:
            others += _follow_all(data, steps, piecewise=True)[0]
            break
    if raw_arrays and any(names_wrapper(node) for pickle in pickles for node in pickle.globals):
        machine = ArrayMachine(data)
        error, _ = follow(machine, steps)
        found = machine.record(None, error) if error is not None else machine.result()
        # Read by joblib it is whole; what a plain unpickler makes of the arrays is another reading.
        others += [*machine.inner, *(pickles if error is None else [found])]
        if error is None:
            pickles, end = [found], found.end
    return Stream(tuple(pickles), end, len(data), tuple(others))


def _follow_all(
    data: bytes, steps: int, *, piecewise: bool = False, keeps_memo: bool = True
) -> tuple[list[Pickle], int]:
    """Return the pickles that follow each other, and the offset after the last STOP."""
    pickles: list[Pickle] = []
    earlier: dict[int, Node] = {}
    at = end = 0
    size = len(data)
    while at < size or not pickles:
        machine = Machine(data, at, forgiving=True, piecewise=piecewise)
        error, taken = follow(machine, steps)
        if error is not None and machine.lacks_memo and earlier:
            # One unpickler that reads several pickles keeps its memo, as the pickler kept its own.
            machine = Machine(data, at, forgiving=True, piecewise=piecewise, memo=earlier)
            error, more = follow(machine, max(steps - taken, 0))
            taken += more
        steps -= taken
        if error is not None:
            pickles.append(machine.record(None, error))
            break
        pickles.append(machine.result())
        at = end = machine.at
        if piecewise:
            at = max(end, machine.frame_end)
        if keeps_memo and at < size:
            earlier |= machine.memo
    return pickles, end


def read_first(source: ByteSource, count: int) -> tuple[Stream, bytes] | None:
    """Follow the first pickles of a file once, without knowing where they end.

    Args:
        source: The file.
        count: How many of them.

    Returns:
        What `read_pickles` gives for their bytes alone, and these bytes; None where one of them is
        broken, longer than this release reads, or not read alike by all loaders.
    """
    size = _MANY_BYTES
    while True:
        data = source.read(0, min(size, source.size))
        pickles: list[Pickle] = []
        at, steps = 0, MAX_STEPS
        for _ in range(count):
            machine = Machine(data, at, forgiving=True)
            error, taken = follow(machine, steps)
            if error is not None or machine.frame_end or machine.oddities:
                break
            steps -= taken
            pickles.append(machine.result())
            at = machine.at
        if len(pickles) == count:
            return Stream(tuple(pickles), at, at, ()), data[:at]
        if not isinstance(error, PickleEndsError) or len(data) < size or size >= MAX_PICKLE_BYTES:
            return None
        size *= 4


def read_pickle_at(
    source: ByteSource, start: int, what: str, *, limit: int | None = None
) -> Placed:
    """Interpret the pickle that begins at an offset of the file.

    Its end is not known before, so a small piece is tried first and a larger one where the pickle
    wants more: together less than twice the pickle is read.

    Args:
        source: The file.
        start: Where the pickle begins.
        what: What messages call it.
        limit: First offset that it cannot reach into; the end of the file where None.

    Raises:
        MalformedError: No unpickler would read it (FIL107), or the file ends within it (FIL104).
        TooLargeError: It is longer than this release reads.
    """
    end = source.size if limit is None else min(limit, source.size)
    size = _FIRST_BYTES
    while True:
        data = source.read(start, min(size, end - start))
        try:
            pickle = interpret(data)
        except PickleEndsError as error:
            if len(data) < size:
                raise _cut(source, start, end, what, error, at_end=end == source.size) from None
            if size >= MAX_PICKLE_BYTES:
                raise TooLargeError(
                    malformed(f"{what} has more than {size} bytes").damage
                ) from None
            size *= 4
            continue
        except TooLargeError:
            raise
        except MalformedError as error:
            at = start + int(error.damage.evidence.get("position", 0))
            raise malformed(
                f"{what}: {error.damage.message}",
                byte_range=(at, min(at + 1, source.size)),
                evidence=error.damage.evidence,
            ) from None
        return Placed(pickle, start, start + pickle.end)


def _cut(
    source: ByteSource, start: int, end: int, what: str, error: PickleEndsError, *, at_end: bool
) -> Exception:
    if not at_end:
        return malformed(f"{what}: {error.damage.message}", byte_range=(start, end))
    return malformed(
        f"ends within {what}: {error.damage.message}",
        rule="FIL104",
        byte_range=(source.size, source.size + 1),
        evidence={
            "size_bytes": source.size,
            "promised_by": what,
            "readable": [],
            **error.damage.evidence,
        },
    )

"""One log read back, by step, without holding it."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

from everybit.core.errors import PathError
from everybit.ledger.damage import Damage
from everybit.ledger.facts import FactsDecoder
from everybit.ledger.frame import CHECK_BYTES, HEADER_BYTES, Kind, decode_header, is_intact
from everybit.ledger.index import LogIndex, index_log
from everybit.ledger.names import read_names
from everybit.ledger.payload import PayloadError, decode_json
from everybit.ledger.process import Liveness, ProcessIdentity
from everybit.ledger.record import as_coverage, as_end, as_finding, as_header, as_observation
from everybit.ledger.samples import decode_samples
from everybit.ledger.scan import Intact, scan_frames
from everybit.ledger.step import decode_step, decode_tables, find_table, number_of
from everybit.ledger.tail import EarlierLog
from everybit.ledger.window import WINDOW_BYTES, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    from everybit.core.finding import Finding
    from everybit.core.link import Link
    from everybit.core.observation import Observation, StepRecord, TensorTable
    from everybit.core.samples import SampleRecord
    from everybit.core.verdict import Coverage
    from everybit.ledger.end import End
    from everybit.ledger.facts import StepFacts

T = TypeVar("T")

_MAX_CACHED_NAMES: Final = 256
#: Records sought one by one are read with a small window.
_FEW_FRAMES: Final = 4
_FEW_WINDOW_BYTES: Final = 8 * 1024


class LogReader:
    """A log, as it was when it was first looked at.

    The first question scans the file once; from then on only offsets are held, and records are read
    where they lie. Damage is never raised: what it spares is read, and `damage` tells of it.

    Args:
        path: The log.
        rank: Its rank, from its name.
        attempt: Its attempt, from its name.
        run: XXH3-128 of the run's `run.json`; None where that is damaged.
    """

    def __init__(self, path: Path, *, rank: int, attempt: int, run: bytes | None) -> None:
        self.path = path
        self.rank = rank
        self.attempt = attempt
        self._run = run
        self._late: list[Damage] = []
        self._names: dict[int, tuple[Link, tuple[str, ...]]] = {}

    @cached_property
    def _index(self) -> LogIndex:
        try:
            with Window(self.path) as window:
                return index_log(window, path=self.path.name, rank=self.rank, run=self._run)
        except FileNotFoundError:
            index = LogIndex()
            index.damages.append(self._damage(0, 0, "the log is gone"))
            return index
        except PermissionError as error:
            raise PathError.from_os_error(error, self.path) from error
        except OSError as error:
            index = LogIndex()
            reason = (error.strerror or str(error)).lower()
            index.damages.append(self._damage(0, 0, f"the log cannot be opened: {reason}"))
            return index

    @property
    def damage(self) -> tuple[Damage, ...]:
        """What is wrong with this log."""
        wrong = [] if self.header else self._wrong_header()
        return (*self._index.damages, *self._misnamed, *wrong, *self._late)

    @property
    def tail_damaged(self) -> bool:
        """Whether damage reaches the end of the log, where the end record would be."""
        return self._index.tail_damaged

    @property
    def torn(self) -> bool:
        """Whether the last frame was never finished."""
        return self._index.torn

    @cached_property
    def header(self) -> dict[str, Any]:
        """What the log's first frame says; empty where that is lost."""
        return next(self._read(self._index.offsets[Kind.HEADER][:1], as_header), {})

    @cached_property
    def earlier(self) -> EarlierLog | None:
        """What the header says of the attempt before this one."""
        return EarlierLog.from_json(self.header.get("previous"))

    @property
    def num_steps(self) -> int:
        """Number of step records."""
        return len(self._index.steps)

    @cached_property
    def step_range(self) -> range:
        """From the lowest step on record to the highest; empty with none."""
        steps = self._index.steps
        return range(min(steps), max(steps) + 1) if steps else range(0)

    def steps(self, *, arrays: bool = False, sums: bool = True) -> Iterator[StepRecord]:
        """Yield the step records, in order, reading as it goes.

        Args:
            arrays: Digests as NumPy arrays (uint64), which cost far less than tuples of integers.
            sums: With their block sums.
        """
        yield from self._read(
            self._index.step_offsets,
            lambda payload, _flags: decode_step(payload, self._names_of, arrays=arrays, sums=sums),
        )

    def payloads(self, apart: Collection[int] = ()) -> Iterator[tuple[int, bytes, int, int]]:
        """Yield each step's number, its payload as it lies in the log, and where a table lies.

        Args:
            apart: Numbers of lists of names; the first table of one of these is looked for.

        Yields:
            The number, the payload (for `decode`), and begin and end of the table (0 with none).
        """
        yield from self._read(
            self._index.step_offsets,
            lambda payload, _flags: (
                number_of(payload),
                bytes(payload),
                *find_table(payload, apart),
            ),
        )

    def decode(self, payload: bytes, *, arrays: bool = False, sums: bool = True) -> StepRecord:
        """Return the step record of a payload of this log."""
        return decode_step(memoryview(payload), self._names_of, arrays=arrays, sums=sums)

    def name_lists(self) -> dict[int, tuple[Link, tuple[str, ...]]] | None:
        """Return what each number of a list of names means; None where there are very many."""
        numbers = self._index.names
        if len(numbers) > _MAX_CACHED_NAMES:
            return None
        found = {number: self._names_of(number) for number in numbers}
        return {number: names for number, names in found.items() if names is not None}

    def facts(self) -> Iterator[StepFacts]:
        """Yield the step records without their digests, in order: several times as fast."""
        decoder = FactsDecoder()
        yield from self._read(
            self._index.step_offsets, lambda payload, _flags: decoder.decode(payload)
        )

    @property
    def links(self) -> set[Link]:
        """The links of which digests are on record."""
        known = (self._names_of(number) for number in self._index.names)
        return {found[0] for found in known if found is not None}

    def step(self, number: int) -> StepRecord | None:
        """Return the last record of step `number`; None where there is none."""
        steps, offsets = self._index.steps, self._index.step_offsets
        if self._sorted:
            at = bisect_right(steps, number) - 1
            found = at if at >= 0 and steps[at] == number else -1
        else:
            found = next((at for at in reversed(range(len(steps))) if steps[at] == number), -1)
        return (
            next(self._read(offsets[found : found + 1], self._as_step), None)
            if found >= 0
            else None
        )

    def inits(self) -> Iterator[tuple[int, tuple[TensorTable, ...]]]:
        """Yield the digests taken outside a step, each with the number of steps before."""
        yield from self._read(self._index.offsets[Kind.TABLES], self._as_tables)

    def samples(self) -> Iterator[SampleRecord]:
        """Yield the delivered batches, in order, reading as it goes."""
        yield from self._read(
            self._index.offsets[Kind.SAMPLES],
            lambda payload, _flags: decode_samples(payload, self.rank),
        )

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings on record."""
        return tuple(self._read(self._index.offsets[Kind.FINDING], as_finding))

    @property
    def observations(self) -> tuple[Observation, ...]:
        """The observations on record."""
        return tuple(self._read(self._index.offsets[Kind.OBSERVATION], as_observation))

    def observed(self, *kinds: str) -> Iterator[Observation]:
        """Yield the observations of some kinds, one at a time."""
        offsets = self._index.offsets[Kind.OBSERVATION]
        yield from (each for each in self._read(offsets, as_observation) if each.kind in kinds)

    @cached_property
    def _account(self) -> tuple[Coverage, dict[str, Any]] | None:
        last = self._index.offsets[Kind.COVERAGE][-1:]
        return next(self._read(last, as_coverage), None)

    @property
    def coverage(self) -> Coverage | None:
        """The last account of what was checked; None where the run ended before it."""
        return self._account[0] if self._account else None

    @property
    def stats(self) -> dict[str, Any]:
        """The numbers recorded with it."""
        return self._account[1] if self._account else {}

    @cached_property
    def end(self) -> End | None:
        """The end record; None where there is none."""
        return next(self._read(self._index.offsets[Kind.END][:1], as_end), None)

    @property
    def liveness(self) -> Liveness:
        """What can be said of the process that writes it; `gone` after an end record."""
        if self.end is not None:
            return Liveness.GONE
        process = ProcessIdentity.from_json(self.header)
        return process.liveness() if process else Liveness.UNSEEN

    @property
    def alive(self) -> bool:
        """Whether the log has no end record and its process still runs here."""
        return self.liveness is Liveness.RUNNING

    def holds(self, sequence: int, check: str) -> bool:
        """Whether frame `sequence` is here, intact, with this checksum (in hexadecimal)."""
        if sequence == self._index.last_sequence:
            return self._index.last_check.hex() == check
        with Window(self.path) as window:
            return any(
                isinstance(piece, Intact)
                and piece.header.sequence == sequence
                and piece.check.hex() == check
                for piece in scan_frames(window)
            )

    @property
    def size_bytes(self) -> int:
        """Length of the file when it was scanned."""
        return self._index.size_bytes

    @cached_property
    def _sorted(self) -> bool:
        steps = self._index.steps
        return all(steps[at] <= steps[at + 1] for at in range(len(steps) - 1))

    @cached_property
    def _misnamed(self) -> tuple[Damage, ...]:
        header = self.header
        place = (header.get("rank"), header.get("attempt"))
        if not header or place == (self.rank, self.attempt):
            return ()
        what = f"the log says that it is rank {place[0]}, attempt {place[1]}: files were swapped"
        return (self._damage(0, 0, what),)

    def _wrong_header(self) -> list[Damage]:
        if any(damage.byte_range[0] == 0 for damage in self._index.damages):
            return []
        return [self._damage(0, 0, "the log's first frame is no header")]

    def _damage(self, start: int, end: int, what: str) -> Damage:
        return Damage(path=self.path.name, byte_range=(start, end), what=what, rank=self.rank)

    def _read(self, offsets: Sequence[int], decode: Callable[[memoryview, int], T]) -> Iterator[T]:
        if not offsets:
            return
        try:
            few = len(offsets) <= _FEW_FRAMES
            window = Window(self.path, _FEW_WINDOW_BYTES if few else WINDOW_BYTES)
        except OSError:
            self._tell_late(0, 0, "the log is gone since it was scanned")
            return
        with window:
            for offset in offsets:
                frame = _frame_at(window, offset)
                if frame is None:
                    self._tell_late(offset, offset, "a frame was intact and no longer is")
                    continue
                try:
                    yield decode(frame[1], frame[0])
                except PayloadError as error:
                    self._tell_late(offset, offset, f"an intact frame's content {error}")

    def _tell_late(self, start: int, end: int, what: str) -> None:
        damage = self._damage(start, end, what)
        if damage not in self._late:
            self._late.append(damage)

    def _as_step(self, payload: memoryview, _flags: int) -> StepRecord:
        return decode_step(payload, self._names_of)

    def _as_tables(self, payload: memoryview, _flags: int) -> tuple[int, tuple[TensorTable, ...]]:
        return decode_tables(payload, self._names_of)

    def _names_of(self, number: int) -> tuple[Link, tuple[str, ...]] | None:
        if number not in self._names:
            offset = self._index.names.get(number)
            if offset is None:
                return None
            found = next(self._read([offset], _as_names), None)
            if found is None:
                return None
            if len(self._names) >= _MAX_CACHED_NAMES:
                self._names.clear()
            self._names[number] = found
        return self._names[number]


def _as_names(payload: memoryview, flags: int) -> tuple[Link, tuple[str, ...]]:
    _, link, names = read_names(decode_json(payload, flags))
    return link, names


def _frame_at(window: Window, offset: int) -> tuple[int, memoryview] | None:
    """Return flags and payload of the frame at an offset, its checksum proven again."""
    head = window.read(offset, HEADER_BYTES)
    header = decode_header(head) if len(head) == HEADER_BYTES else None
    if header is None:
        return None
    frame = window.read(offset, header.frame_bytes)
    if len(frame) != header.frame_bytes or not is_intact(frame):
        return None
    return header.flags, frame[HEADER_BYTES:-CHECK_BYTES]

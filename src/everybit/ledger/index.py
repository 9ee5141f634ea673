"""What a log holds and where: offsets only, made by one scan.

A frame says itself which log it is of and what its number is, so an intact one is used wherever it
lies; that it does not lie where it should is damage all the same.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from everybit.ledger.damage import Damage
from everybit.ledger.frame import Kind
from everybit.ledger.names import read_names
from everybit.ledger.payload import PayloadError, decode_json
from everybit.ledger.record import READERS
from everybit.ledger.scan import Broken, Intact, Torn, scan_frames
from everybit.ledger.step import step_number, tables_number

if TYPE_CHECKING:
    from everybit.ledger.window import Window

#: More damaged places than this in one log are told as one.
MAX_DAMAGES: Final = 256

_FRAMES_ASKED: Final = 5


@dataclass(slots=True)
class LogIndex:
    """Offsets of a log's frames by kind, and what is wrong with it.

    Attributes:
        steps: Step numbers, in the order of the records.
        step_offsets: Where their frames begin.
        offsets: Where the other frames begin, by kind, in order.
        names: Where the list of names of each number is defined.
        damages: Damaged places, in order.
        torn: Whether the last frame was never finished.
        num_frames: Intact frames.
        last_sequence: Highest sequence number, -1 with no frame.
        last_check: Checksum of that frame.
        size_bytes: Length of the file when it was scanned.
        tail_damaged: Whether what is damaged reaches the end of the file.
    """

    steps: array[int] = field(default_factory=lambda: array("Q"))
    step_offsets: array[int] = field(default_factory=lambda: array("Q"))
    offsets: dict[int, array[int]] = field(
        default_factory=lambda: {kind: array("Q") for kind in Kind}
    )
    names: dict[int, int] = field(default_factory=dict)
    damages: list[Damage] = field(default_factory=list)
    torn: bool = False
    num_frames: int = 0
    last_sequence: int = -1
    last_check: bytes = b""
    size_bytes: int = 0
    tail_damaged: bool = False


def index_log(window: Window, *, path: str, rank: int, run: bytes | None) -> LogIndex:
    """Scan a log once.

    Args:
        window: The log.
        path: Its file name, for the damage.
        rank: Its rank, for the damage.
        run: XXH3-128 of `run.json`; None where that is damaged itself.
    """
    return _Indexer(window, path=path, rank=rank, run=run).index()


@dataclass(slots=True)
class _Place:
    """A damaged place while the step after it is not known yet."""

    start: int
    end: int
    what: str
    step_before: int | None
    step_after: int | None = None


def _log_id(window: Window) -> int:
    """Return the id of most of the first frames: a foreign first one disowns none."""
    ids: list[int] = []
    for piece in scan_frames(window):
        if isinstance(piece, Intact):
            ids.append(piece.header.log_id)
            if len(ids) == _FRAMES_ASKED:
                break
    return max(ids, key=ids.count) if ids else 0


class _Indexer:
    def __init__(self, window: Window, *, path: str, rank: int, run: bytes | None) -> None:
        self._window = window
        self._path = path
        self._rank = rank
        self._run = run
        self._index = LogIndex(size_bytes=window.size)
        self._places: list[_Place] = []
        self._open: list[_Place] = []
        self._log_id = _log_id(window)
        self._missing: list[tuple[int, int]] = []  # [first, end) sequence numbers, sorted
        self._gaps: list[tuple[_Place, int, int]] = []
        self._sequences = array("Q")
        self._disordered = False
        self._end_sequence: int | None = None
        self._used_names: set[int] = set()
        self._last_step: int | None = None

    def index(self) -> LogIndex:
        index = self._index
        if not index.size_bytes:
            self._damaged(0, 0, "the log is empty: its first frame is missing")
        for piece in scan_frames(self._window):
            if isinstance(piece, Intact):
                self._intact(piece)
            elif isinstance(piece, Torn) and piece.start > 0:
                index.torn = True
            else:
                what = piece.what if isinstance(piece, Broken) else "the first frame is cut short"
                self._damaged(piece.start, piece.end, what)
        self._tell_missing()
        self._tell_names()
        if self._disordered:
            order = sorted(range(len(index.steps)), key=self._sequences.__getitem__)
            index.steps = array("Q", [index.steps[i] for i in order])
            index.step_offsets = array("Q", [index.step_offsets[i] for i in order])
        self._places.sort(key=lambda place: place.start)
        index.tail_damaged = any(place.end == self._window.size for place in self._places)
        index.damages = [
            Damage(
                path=self._path,
                byte_range=(place.start, place.end),
                what=place.what,
                step_before=place.step_before,
                step_after=place.step_after,
                rank=self._rank,
            )
            for place in self._places
        ]
        return index

    def _intact(self, frame: Intact) -> None:
        header, index = frame.header, self._index
        sequence = header.sequence
        expected = index.last_sequence + 1
        if header.log_id != self._log_id:
            self._damaged(frame.start, frame.end, f"frame {sequence} of another log")
            return
        if sequence == expected:
            self._check_chain(frame)
        elif sequence > expected:
            self._missing.append((expected, sequence))
            gap = _Place(frame.start, frame.start, "", self._last_step)
            self._gaps.append((gap, expected, sequence))
            self._open.append(gap)
        elif self._was_missing(sequence):
            self._disordered = True
            self._damaged(
                frame.start, frame.end, f"frame {sequence} is out of order, though intact"
            )
        else:
            self._damaged(frame.start, frame.end, f"frame {sequence} is there a second time")
            return
        if sequence >= expected:
            index.last_sequence, index.last_check = sequence, frame.check
            if self._end_sequence is not None:
                self._damaged(frame.start, frame.end, "a frame after the end record")
        index.num_frames += 1
        try:
            self._enter(frame, in_order=sequence >= expected)
        except PayloadError as error:
            self._damaged(
                frame.start, frame.end, f"frame {sequence} is intact, but its content {error}"
            )

    def _check_chain(self, frame: Intact) -> None:
        header, index = frame.header, self._index
        if header.sequence == 0:
            if self._run is not None and header.previous != self._run:
                self._damaged(0, 0, "the log belongs to another run.json than the one here")
        elif header.previous != index.last_check:
            self._damaged(
                frame.start,
                frame.start,
                f"frame {header.sequence} does not follow from the frame before it",
            )

    def _enter(self, frame: Intact, *, in_order: bool) -> None:
        kind, index = frame.header.kind, self._index
        if kind == Kind.STEP:
            step, ids = step_number(frame.payload)
            self._used_names.update(ids)
            index.steps.append(step)
            index.step_offsets.append(frame.start)
            self._sequences.append(frame.header.sequence)
            if in_order:
                self._last_step = step
            if self._open and in_order:
                for place in self._open:
                    place.step_after = step
                self._open.clear()
            return
        if kind == Kind.TABLES:
            self._used_names.update(tables_number(frame.payload)[1])
        elif kind == Kind.NAMES:
            number, _, _ = read_names(decode_json(frame.payload, frame.header.flags))
            index.names.setdefault(number, frame.start)
        elif kind in READERS:
            READERS[kind](frame.payload, frame.header.flags)
        if kind == Kind.END and self._end_sequence is None:
            self._end_sequence = frame.header.sequence
        if kind in index.offsets:
            index.offsets[kind].append(frame.start)

    def _was_missing(self, sequence: int) -> bool:
        at = bisect_left(self._missing, (sequence + 1,)) - 1
        if at < 0 or not self._missing[at][0] <= sequence < self._missing[at][1]:
            return False
        first, end = self._missing.pop(at)
        if sequence + 1 < end:
            self._missing.insert(at, (sequence + 1, end))
        if first < sequence:
            self._missing.insert(at, (first, sequence))
        return True

    def _tell_missing(self) -> None:
        broken_ends = {place.end for place in self._places if place.end > place.start}
        for gap, first, end in self._gaps:
            if gap.start in broken_ends:
                continue  # the damage just before is why they are missing
            left, at = 0, max(0, bisect_left(self._missing, (first,)) - 1)
            while at < len(self._missing) and self._missing[at][0] < end:
                left += max(0, min(self._missing[at][1], end) - max(self._missing[at][0], first))
                at += 1
            if left:
                what = f"{left} {'frame is' if left == 1 else 'frames are'} missing"
                gap.what = f"{what}, from frame {first} on"
                self._place(gap)

    def _tell_names(self) -> None:
        lost = self._used_names - self._index.names.keys()
        if lost:
            self._damaged(
                0,
                0,
                f"the names of {len(lost)} kinds of digests are lost, and their digests with them",
            )

    def _damaged(self, start: int, end: int, what: str) -> None:
        last = self._places[-1] if self._places else None
        if last is not None and last.end == start and last.start < last.end and start < end:
            last.end = end
        else:
            place = _Place(start, end, what, self._last_step)
            self._open.append(place)
            self._place(place)

    def _place(self, place: _Place) -> None:
        if len(self._places) < MAX_DAMAGES:
            self._places.append(place)
            return
        last = self._places[-1]
        last.start, last.end = min(last.start, place.start), max(last.end, place.end)
        last.what = "many damaged places, the first of them here"
        last.step_after = place.step_after
        if place.step_after is None and last not in self._open:
            self._open.append(last)

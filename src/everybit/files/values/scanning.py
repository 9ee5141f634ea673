"""One pass over a file with no seal: members' checksums, zero sectors and senses together.

Every byte is read once, by a few threads, and worked on while it lies in the cache.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from isal import isal_zlib

from everybit.files import crc32
from everybit.files.blocks import over_blocks
from everybit.files.source import CHUNK_BYTES
from everybit.files.values.senses import Sensed, sense, zero_sectors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from everybit.files.source import ByteSource
    from everybit.files.values.spans import Span
    from everybit.files.zips.archive import Member

#: A smaller gap between what is wanted is read along.
_GAP_BYTES: Final = 64 * 1024
#: An element that the end of a chunk cuts is looked at with the chunk it starts in.
_OVERHANG_BYTES: Final = 16
_ALIGN: Final = 4096
#: More runs of zeros than this are nature, not loss; what follows is not judged.
_MAX_RUNS: Final = 100_000


@dataclass(slots=True)
class Scan:
    """The outcome of the pass.

    Attributes:
        crcs: CRC-32 of each member asked for, in their order.
        sensed: What is notable in a span, by its index; most spans have no entry.
        zeros: Sorted, disjoint runs of zero sectors.
        rich: Ranges of the file that are full of zeros by nature.
        num_bytes: Bytes read.
    """

    crcs: list[int]
    sensed: dict[int, Sensed] = field(default_factory=dict)
    zeros: list[tuple[int, int]] = field(default_factory=list)
    rich: list[tuple[int, int]] = field(default_factory=list)
    num_bytes: int = 0


@dataclass(slots=True)
class _Block:
    begin: int
    end: int
    crcs: list[tuple[int, int, int]] = field(default_factory=list)  # member, CRC, bytes
    sensed: list[tuple[int, Sensed]] = field(default_factory=list)
    zeros: list[tuple[int, int]] = field(default_factory=list)


def scan(
    source: ByteSource,
    members: Sequence[Member],
    spans: Sequence[Span],
    progress: Callable[[int], None],
    *,
    whole: bool = False,
) -> Scan:
    """Read the bytes of some members and spans once.

    Args:
        source: The file.
        members: Stored members whose CRC-32 is wanted, disjoint and sorted by their start.
        spans: Spans to look at, disjoint and sorted.
        progress: Is told the bytes read, as they are.
        whole: Look for zeros in all of the file, as damage of its records may have hidden members.

    Raises:
        PathError: The file cannot be read.
    """
    result = Scan(crcs=[0] * len(members))
    places = [(m.start, m.end) for m in members] + [(s.start, s.end) for s in spans]
    if whole:
        places.append((0, source.size))
    wanted = sorted(place for place in places if place[0] < place[1])
    work = _Work(members, spans)
    source.advise_sequential()
    for block in over_blocks(source, _joined(wanted, source.size), work):
        for index, crc, length in block.crcs:
            result.crcs[index] = crc32.join(result.crcs[index], crc, length)
        for index, sensed in block.sensed:
            result.sensed.setdefault(index, Sensed()).add(sensed)
        _add_zeros(result, block)
        result.num_bytes += block.end - block.begin
        progress(block.end - block.begin)
    return result


def _joined(wanted: list[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """Return the ranges to read: on page boundaries, across small gaps, within the file."""
    ranges: list[tuple[int, int]] = []
    for start, end in wanted:
        low, high = start - start % _ALIGN, min(end - end % -_ALIGN, size)
        if low >= high:
            continue
        if ranges and low <= ranges[-1][1] + _GAP_BYTES:
            ranges[-1] = (ranges[-1][0], max(high, ranges[-1][1]))
        else:
            ranges.append((low, high))
    return ranges


def _add_zeros(result: Scan, block: _Block) -> None:
    for start, end in block.zeros:
        if result.zeros and result.zeros[-1][1] == start:
            result.zeros[-1] = (result.zeros[-1][0], end)
        elif len(result.zeros) >= _MAX_RUNS:
            first = result.rich[0][0] if result.rich else start
            result.rich = [(first, end)]
        else:
            result.zeros.append((start, end))


class _Work:
    """Reads one block and does all that is wanted with its bytes; called on any thread."""

    def __init__(self, members: Sequence[Member], spans: Sequence[Span]) -> None:
        self._members = members
        self._spans = spans
        self._member_starts = [member.start for member in members]
        self._span_starts = [span.start for span in spans]

    def __call__(self, source: ByteSource, begin: int, end: int) -> _Block:
        import numpy as np

        block = _Block(begin, end)
        running: dict[int, tuple[int, int]] = {}
        size = min(CHUNK_BYTES, end - begin)
        buffer = memoryview(bytearray(size + _OVERHANG_BYTES))
        data = np.frombuffer(buffer, dtype="u1")
        for at in range(begin, end, CHUNK_BYTES):
            stop = min(at + CHUNK_BYTES, end)
            count = source.read_into(at, buffer[: stop - at + _OVERHANG_BYTES])
            self._check(running, buffer, at, min(stop, at + count))
            if self._spans:
                self._sense(block, data, at, stop, count)
        block.crcs = [(index, crc, length) for index, (crc, length) in running.items()]
        return block

    def _check(
        self, running: dict[int, tuple[int, int]], buffer: memoryview, at: int, stop: int
    ) -> None:
        index = max(0, bisect.bisect_right(self._member_starts, at) - 1)
        while index < len(self._members) and self._member_starts[index] < stop:
            member = self._members[index]
            low, high = max(member.start, at), min(member.end, stop)
            if low < high:
                crc, length = running.get(index, (0, 0))
                crc = isal_zlib.crc32(buffer[low - at : high - at], crc)
                running[index] = (crc, length + high - low)
            index += 1

    def _sense(self, block: _Block, data: Any, at: int, stop: int, count: int) -> None:
        for run in zero_sectors(data[: min(count, stop - at)], at):
            if block.zeros and block.zeros[-1][1] == run[0]:
                block.zeros[-1] = (block.zeros[-1][0], run[1])
            else:
                block.zeros.append(run)
        index = max(0, bisect.bisect_right(self._span_starts, at) - 1)
        while index < len(self._spans) and self._span_starts[index] < stop:
            span = self._spans[index]
            if span.kind is not None and span.end > at:
                size = span.kind.itemsize
                low = max(span.start, at)
                low += (span.start - low) % size
                high = min(span.end, stop)
                length = max(0, min(-(-(high - low) // size), (at + count - low) // size))
                patterns = data[low - at : low - at + length * size].view(span.kind.unsigned)
                if span.big_endian:
                    patterns = patterns.byteswap()
                found = sense(patterns, span.kind, low)
                if found is not None:
                    block.sensed.append((index, found))
            index += 1

"""Runs of zeros that a lost write left inside dense data, told from zeros that belong there.

A file system or a device loses whole blocks of the file. A model has zeros where its own structure
has boundaries: whole tensors, rows, everywhere in a pruned one. So a run of zeros is a hole where
its ends lie on blocks of the file and cut through a row of a tensor that is otherwise dense.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from everybit.files.values.senses import SECTOR_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everybit.files.source import ByteSource
    from everybit.files.tensor import FileTensor
    from everybit.files.values.scanning import Scan
    from everybit.files.values.spans import Span

PAGE_BYTES: Final = 4096
_NEAR_BYTES: Final = 16 * 1024
_MIN_NEAR_ELEMENTS: Final = 64
_MIN_DISTINCT: Final = 9
_MAX_ZERO_SHARE: Final = 0.5
_MAX_RUNS_A_SPAN: Final = 64
#: Rows shorter than this meet the blocks of a file by chance too often to say anything.
_SMALL_ROW_BYTES: Final = 64
_MAX_HOLES: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """A run of zeros that does not belong where it is.

    Attributes:
        start: First byte, on a block of the file.
        end: Last byte, excluded.
        cut: The tensors that its ends cut through.
        covered: The tensors that it covers whole.
        block_bytes: The block that both ends are multiples of; at the end of the file, its start.
        strong: Both ends lie on pages inside tensors, where nothing of their shape ends.
        zero_share: Share of zeros among the elements around it.
        proven: Bytes in it fail their own checksum, or should be records of the archive.
    """

    start: int
    end: int
    cut: tuple[FileTensor, ...]
    covered: tuple[FileTensor, ...]
    block_bytes: int
    strong: bool
    zero_share: float
    proven: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A run of zero sectors with its exact ends, and the spans that the ends lie inside of."""

    start: int
    end: int
    first: int  # exact first zero byte
    last: int  # exact end of the zero bytes
    left: int | None
    right: int | None


@dataclass(slots=True)
class _Evidence:
    source: ByteSource
    spans: Sequence[Span]
    starts: list[int]
    rich: list[tuple[int, int]]
    failed: Sequence[tuple[int, int]]
    records: Sequence[tuple[int, int]]
    counts: dict[int, int] = field(default_factory=dict)


def find_holes(
    source: ByteSource,
    spans: Sequence[Span],
    scan: Scan,
    failed: Sequence[tuple[int, int]] = (),
    records: Sequence[tuple[int, int]] = (),
) -> list[Hole]:
    """Judge the runs of zeros that a pass over the file noted.

    Args:
        source: The file.
        spans: The spans it was scanned with.
        scan: What the pass found.
        failed: `[start, end)` ranges whose checksum does not hold.
        records: And of an archive's records that cannot be right.
    """
    seen = _Evidence(source, spans, [span.start for span in spans], scan.rich, failed, records)
    for start, end in scan.zeros:
        for index in {_inside(seen, start), _inside(seen, end)}:
            if index is not None:
                seen.counts[index] = seen.counts.get(index, 0) + 1
    runs = [run for run in (_place(seen, zero) for zero in scan.zeros) if run is not None]
    found: list[tuple[_Run, Hole]] = []
    natural: set[int | None] = set()
    for run in runs:
        hole = _judge(seen, run)
        if hole is not None:
            found.append((run, hole))
        else:
            natural |= {run.left, run.right}
    # Where one run of a tensor is nature, so may the others be.
    return [
        hole for run, hole in found if hole.proven or not ({run.left, run.right} - {None}) & natural
    ][:_MAX_HOLES]


def _place(seen: _Evidence, zero: tuple[int, int]) -> _Run | None:
    """Return a run with its ends; None where it covers tensors whole and cuts none."""
    start, end = zero
    ends = [index for at in zero if (index := _inside(seen, at)) is not None]
    if not ends and not _holds_record(seen, zero):
        return None
    first, last = start, end
    if not any(seen.counts.get(index, 0) > _MAX_RUNS_A_SPAN for index in ends):
        before = seen.source.read(max(0, start - SECTOR_BYTES), min(start, SECTOR_BYTES))
        after = seen.source.read(end, SECTOR_BYTES)
        first = start - (len(before) - len(before.rstrip(b"\0")))
        last = end + (len(after) - len(after.lstrip(b"\0")))
    left, right = _inside(seen, first), _inside(seen, last)
    if left is None and right is None and not _holds_record(seen, zero):
        return None
    return _Run(start=start, end=end, first=first, last=last, left=left, right=right)


def _inside(seen: _Evidence, at: int) -> int | None:
    """Return the index of the span that a place lies inside of, its very ends not counted."""
    index = bisect.bisect_right(seen.starts, at) - 1
    if index >= 0 and seen.spans[index].start < at < seen.spans[index].end:
        return index
    return None


def _judge(seen: _Evidence, run: _Run) -> Hole | None:
    ends = [index for index in (run.left, run.right) if index is not None]
    record = _holds_record(seen, (run.start, run.end))
    proven = record or any(low < run.end and run.start < high for low, high in seen.failed)
    if not proven and any(_riddled(seen, index) for index in ends):
        return None
    if not record and not (_on_block(seen, run) and _dense(seen, run, proven=proven)[0]):
        return None
    page = run.start % PAGE_BYTES == 0 and (
        run.end % PAGE_BYTES == 0 or run.last >= seen.source.size
    )
    strong = page and run.left is not None and run.right is not None
    if not proven:
        if _ends_with_its_tensor(seen, run):
            return None
        if not strong and not (page or (run.left is not None and run.right is not None)):
            return None
        row_bytes = _natural_unit(seen, run)
        if row_bytes >= (SECTOR_BYTES if page else _SMALL_ROW_BYTES):
            return None
        strong = strong and row_bytes < _SMALL_ROW_BYTES
        if any(_ambiguous(seen.spans[index]) for index in ends):
            if any(seen.spans[index].kind is not None for index in ends) or not page:
                return None
            strong = False
    low = max(0, bisect.bisect_right(seen.starts, run.start) - 1)
    touched = [
        span for span in seen.spans[low : bisect.bisect_left(seen.starts, run.end)]
        if span.end > run.start
    ]  # fmt: skip
    cut = [seen.spans[index].tensor for index in dict.fromkeys(ends)]
    held = [tensor for span in touched for tensor in span.tensors if tensor not in cut]
    return Hole(
        start=run.start,
        end=run.end,
        cut=tuple(cut),
        covered=tuple(held),
        block_bytes=PAGE_BYTES if page else SECTOR_BYTES,
        strong=strong or proven,
        zero_share=_dense(seen, run, proven=proven)[1] if ends else 0.0,
        proven=proven,
    )


def _holds_record(seen: _Evidence, zero: tuple[int, int]) -> bool:
    """Return whether a record of the archive should be where the zeros are."""
    return any(zero[0] <= low < zero[1] for low, _ in seen.records)


def _ends_with_its_tensor(seen: _Evidence, run: _Run) -> bool:
    """Return whether zeros fill a tensor from its very start, or to its very end, and no other.

    Tables of sines begin so, buffers that are filled from the front end so.
    """
    if run.left is None and run.right is not None:
        return run.first == seen.spans[run.right].start
    if run.right is None and run.left is not None:
        return run.last == seen.spans[run.left].end and run.last < seen.source.size
    return False


def _on_block(seen: _Evidence, run: _Run) -> bool:
    """Return whether the ends of the zeros lie on sectors, as far as they lie inside tensors.

    The element behind a hole may begin with zero bytes of its own; the one before it ends with its
    exponent, which is none.
    """
    if run.left is not None:
        slack = _slack(seen.spans[run.left], behind=False)
        if run.start - run.first > slack:
            return False
    elif run.first != run.start:
        return False
    if run.right is not None:
        return run.last - run.end <= _slack(seen.spans[run.right], behind=True)
    return run.last == run.end or run.last >= seen.source.size


def _slack(span: Span, *, behind: bool) -> int:
    if span.itemsize == 1:
        return 2
    misplaced = span.start % span.itemsize != 0
    # Small integers end with zero bytes.
    loose = misplaced or span.big_endian or span.kind is None
    return span.itemsize - 1 if behind or loose else 0


def _riddled(seen: _Evidence, index: int) -> bool:
    """Return whether a span has so many runs of zeros that they are its nature."""
    span = seen.spans[index]
    if seen.counts.get(index, 0) > _MAX_RUNS_A_SPAN:
        return True
    return any(low < span.end and span.start < high for low, high in seen.rich)


def _natural_unit(seen: _Evidence, run: _Run) -> int:
    """Return the longest row, in bytes, that both ends of a run are boundaries of; 0 for none."""
    if run.left is not None and run.left == run.right:
        span = seen.spans[run.left]
        if {run.start, run.end} <= _edges(span):
            return span.end - span.start
        common = _units(span, run.start) & _units(span, run.end)
        return max(common, default=0)
    units = []
    for index, at in ((run.left, run.start), (run.right, run.end)):
        if index is not None:
            span = seen.spans[index]
            whole = span.end - span.start if at in _edges(span) else 0
            units.append(max((*_units(span, at), whole), default=0))
    return min(units)


def _edges(span: Span) -> set[int]:
    """Return where tensors begin and end that share the span."""
    return {edge for tensor in span.tensors for bounds in tensor.byte_ranges for edge in bounds}


def _units(span: Span, at: int) -> set[int]:
    """Return the lengths of rows, at every level of the shape, that end at a place."""
    tensor = span.tensor
    rows = {
        step * tensor.itemsize
        for step, size in zip(tensor.stride, tensor.shape, strict=True)
        if size > 1 and step > 1
    }
    return {row for row in rows if (at - tensor.start) % row == 0}


def _ambiguous(span: Span) -> bool:
    """Return whether blocks of the file are round numbers of a vector's elements as well.

    Biases that were put into one long vector end at such numbers.
    """
    rows = [size for size in span.tensor.shape if size > 1]
    return len(rows) < 2 and span.start % SECTOR_BYTES == 0


def _dense(seen: _Evidence, run: _Run, *, proven: bool) -> tuple[bool, float]:
    """Return whether the data around a run are dense, and their share of zero elements."""
    import numpy as np

    parts: list[Any] = []
    for index, low, high in (
        (run.left, run.start - _NEAR_BYTES, run.start),
        (run.right, run.end, run.end + _NEAR_BYTES),
    ):
        if index is None:
            continue
        span = seen.spans[index]
        size = span.itemsize if span.itemsize <= 8 else 8
        low, high = max(low, span.start), min(high, span.end)
        low += (span.start - low) % size
        data = seen.source.read(low, high - low)
        whole = data[: len(data) // size * size]
        parts.append(np.frombuffer(whole, dtype=f"u{size}").astype("u8"))
    near = np.concatenate(parts)
    if len(near) < _MIN_NEAR_ELEMENTS:
        return False, 1.0
    share = float(np.count_nonzero(near == 0)) / len(near)
    if len(np.unique(near)) < _MIN_DISTINCT:
        return False, share
    return share <= (0.9 if proven else _MAX_ZERO_SHARE), share

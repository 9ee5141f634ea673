"""A byte range in blocks, read and worked on by a few threads, with the results in order.

Reading, XXH3 and CRC-32 all release the interpreter's lock. Threads take turns block by block
rather than halves of the file, so that a disk still sees one stream.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

from everybit.core.tree import LEAF_BYTES
from everybit.files.source import CHUNK_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

    from everybit.files.source import ByteSource

#: A whole number of leaves and of chunks.
BLOCK_BYTES: Final = 64 * LEAF_BYTES
_MAX_THREADS: Final = 4
#: A smaller range is done before a thread has started.
_PARALLEL_BYTES: Final = 8 * BLOCK_BYTES

Result = TypeVar("Result")


def in_blocks(
    source: ByteSource,
    start: int,
    end: int,
    work: Callable[[Iterable[memoryview]], Result],
) -> Iterator[tuple[Result, int]]:
    """Yield `(work(chunks of the block), bytes in it)` for each block of a range, in order.

    Args:
        source: The file.
        start: First byte; blocks are counted from here.
        end: Last byte, excluded.
        work: Is given the chunks of one block; runs on any thread.

    Raises:
        PathError: The file cannot be read.
    """
    return over_blocks(
        source, [(start, end)], lambda opened, low, high: _work(opened, low, high, work)
    )


def over_blocks(
    source: ByteSource,
    ranges: Iterable[tuple[int, int]],
    work: Callable[[ByteSource, int, int], Result],
) -> Iterator[Result]:
    """Yield `work(source, begin, end)` for each block of some ranges, in order.

    Args:
        source: The file.
        ranges: `[start, end)` ranges; the blocks of each are counted from its start.
        work: Reads and works on one block, through the source that it is given; runs on any thread.

    Raises:
        PathError: The file cannot be read.
    """
    blocks = [
        (begin, min(begin + BLOCK_BYTES, end))
        for start, end in ranges
        for begin in range(start, end, BLOCK_BYTES)
    ]
    num_threads = min(_MAX_THREADS, os.cpu_count() or 1)
    if sum(end - begin for begin, end in blocks) < _PARALLEL_BYTES or num_threads < 2:
        for begin, end in blocks:
            yield work(source, begin, end)
        return
    own = threading.local()
    opened: list[ByteSource] = []

    def run(begin: int, end: int) -> Result:
        if not hasattr(own, "source"):
            own.source = source.again()
            opened.append(own.source)
        return work(own.source, begin, end)

    pool = ThreadPoolExecutor(num_threads)
    try:
        running: deque[Future[Result]] = deque()
        for begin, end in blocks:
            running.append(pool.submit(run, begin, end))
            if len(running) > 2 * num_threads:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
        for other in opened:
            other.close()


def _work(
    source: ByteSource, begin: int, end: int, work: Callable[[Iterable[memoryview]], Result]
) -> tuple[Result, int]:
    num_bytes = 0

    def counted() -> Iterator[memoryview]:
        nonlocal num_bytes
        for chunk in source.chunks(begin, end, size=CHUNK_BYTES):
            num_bytes += len(chunk)
            yield chunk

    result = work(counted())
    return result, num_bytes

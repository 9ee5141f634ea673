"""Writing a parity file: one pass over the sealed files, column by column, in bounded memory."""

from __future__ import annotations

import os
import tempfile
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import xxhash

from everybit.core.atomic import check_writable
from everybit.core.errors import PathError
from everybit.core.tree import LEAF_BYTES, LEAF_DIGEST_BYTES
from everybit.files.parity.coding import check_reed_solomon, rs_encode, xor_into
from everybit.files.parity.container import (
    back_envelope,
    blocks_start_for,
    encode_index,
    front_envelope,
    id_of,
)
from everybit.files.parity.layout import Code, Layout, choose_layout
from everybit.files.parity.leaves import LeafReader
from everybit.files.parity.record import PARITY_NAME, ParityRecord
from everybit.files.passes import no_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future
    from typing import BinaryIO

    from everybit.files.seals.manifest import Manifest

#: Leaves read at once: they stay in the cache until they are folded in.
_RUN_LEAVES: Final = 16
#: Stripes worked on at once by a thread with XOR (4 MiB), and with Reed-Solomon (32 x 256 KiB).
_XOR_COLUMNS: Final = 64
_RS_COLUMNS: Final = 4
_MAX_THREADS: Final = 4


def write_parity(
    folder: Path,
    manifest: Manifest,
    *,
    redundancy: float,
    code: Code | None = None,
    progress: Callable[[int], None] = no_progress,
) -> ParityRecord:
    """Write `PARITY.everybit` for all files of a manifest; it appears whole or not at all.

    Every leaf is held against its digest as it is read, so that parity is never computed from
    other bytes than were sealed.

    Args:
        folder: Where the manifest and its files lie.
        manifest: What was sealed; its own `parity` is not looked at.
        redundancy: Parity as a share of the data, 0.05 for 5 %.
        code: XOR or Reed-Solomon; by the redundancy where None.
        progress: Is told the bytes read, as they are.

    Raises:
        UsageError: The redundancy cannot be had.
        PathError: A file cannot be read or holds other bytes than were sealed, or the parity file
            cannot be written. What was there before is untouched.
    """
    files = [(path, entry.size_bytes) for path, entry in manifest.files.items()]
    layout = choose_layout(files, redundancy, code)
    if layout.code is Code.REED_SOLOMON:
        check_reed_solomon()
    place = folder / PARITY_NAME
    check_writable(place)
    sealed = replace(manifest, parity=None).encode()
    digests = bytearray(16 * layout.num_blocks)
    start = blocks_start_for(len(encode_index(layout, sealed, bytes(digests))))
    try:
        handle, name = tempfile.mkstemp(prefix=f".{PARITY_NAME}.", suffix=".part", dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                Path(name).chmod(0o644)
                _write_blocks(file, start, folder, manifest, layout, digests, progress)
                index = encode_index(layout, sealed, bytes(digests))
                file.seek(0)
                file.write(front_envelope(index) + index)
                file.seek(start + layout.num_blocks * layout.block_bytes)
                file.write(index + back_envelope(index))
                size = file.tell()
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(place)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise PathError.from_os_error(error, place) from error
    return ParityRecord(id=id_of(sealed), size_bytes=size, layout=layout)


def _write_blocks(
    file: BinaryIO,
    start: int,
    folder: Path,
    manifest: Manifest,
    layout: Layout,
    digests: bytearray,
    progress: Callable[[int], None],
) -> None:
    """Compute columns of stripes on a few threads and write their blocks as they come."""
    width = _XOR_COLUMNS if layout.code is Code.XOR else _RS_COLUMNS
    compute = _xor_columns if layout.code is Code.XOR else _rs_columns

    def run(first: int) -> tuple[int, list[bytes], int]:
        with LeafReader(folder, layout) as reader:
            columns = range(first, min(first + width, layout.stripes))
            return first, *compute(reader, manifest, layout, columns)

    pool = ThreadPoolExecutor(min(_MAX_THREADS, os.cpu_count() or 1))
    running: deque[Future[tuple[int, list[bytes], int]]] = deque()

    def take() -> None:
        first, rows, num_bytes = running.popleft().result()
        for row, blocks in enumerate(rows):
            number = row * layout.stripes + first
            file.seek(start + number * layout.block_bytes)
            file.write(blocks)
            for at in range(0, len(blocks), layout.block_bytes):
                digest = xxhash.xxh3_128_digest(memoryview(blocks)[at : at + layout.block_bytes])
                digests[16 * number : 16 * (number + 1)] = digest
                number += 1
        progress(num_bytes)

    try:
        for first in range(0, layout.stripes, width):
            running.append(pool.submit(run, first))
            if len(running) > _MAX_THREADS:
                take()
        while running:
            take()
    finally:
        pool.shutdown(cancel_futures=True)


def _sealed_runs(
    reader: LeafReader, manifest: Manifest, layout: Layout, row: int, columns: range, at: memoryview
) -> Iterator[tuple[int, memoryview]]:
    """Yield `(column, bytes of leaves from it on)` of one row of stripes, each leaf proved."""
    begin = row * layout.stripes
    stop = min(begin + columns.stop, layout.num_leaves)
    hashed = xxhash.xxh3_128_digest
    for run in reader.runs(begin + columns.start, stop, at):
        path = layout.files[run.file][0]
        wanted = manifest.files[path].leaves
        found = b"".join(
            hashed(run.data[start : start + LEAF_BYTES])
            for start in range(0, len(run.data), LEAF_BYTES)
        )
        num_leaves = min(stop - run.leaf, layout.first_leaves[run.file + 1] - run.leaf, _RUN_LEAVES)
        if len(found) != num_leaves * LEAF_DIGEST_BYTES or not wanted.startswith(
            found, LEAF_DIGEST_BYTES * run.inner
        ):
            raise PathError(
                "changed after it was sealed, before its parity was computed",
                where=path,
                todo="seal it when nothing writes to it",
            )
        yield run.leaf - begin - columns.start, run.data


def _xor_columns(
    reader: LeafReader, manifest: Manifest, layout: Layout, columns: range
) -> tuple[list[bytes], int]:
    import numpy as np

    size = layout.block_bytes
    total = np.zeros(len(columns) * size, np.uint8)
    buffer = memoryview(bytearray(_RUN_LEAVES * LEAF_BYTES))
    num_bytes = 0
    for row in range(layout.data_per_stripe):
        for column, data in _sealed_runs(reader, manifest, layout, row, columns, buffer):
            # Smaller blocks than a leaf mean smaller files: runs of one leaf each.
            xor_into(total, column * size, data)
            num_bytes += len(data)
    return [total.tobytes()], num_bytes


def _rs_columns(
    reader: LeafReader, manifest: Manifest, layout: Layout, columns: range
) -> tuple[list[bytes], int]:
    size = layout.block_bytes
    width = len(columns) * size
    data = bytearray(layout.data_per_stripe * width)
    buffer = memoryview(bytearray(_RUN_LEAVES * LEAF_BYTES))
    num_bytes = 0
    for row in range(layout.data_per_stripe):
        for column, run in _sealed_runs(reader, manifest, layout, row, columns, buffer):
            at = row * width + column * size
            data[at : at + len(run)] = run
            num_bytes += len(run)
    return rs_encode(data, layout.data_per_stripe, layout.parity_per_stripe), num_bytes

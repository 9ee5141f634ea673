"""Block sums in a step's payload, behind its tables (format 2).

Their number (4 bytes), then for each: the id of its list of names (4 bytes, see `names.py`), rows,
columns, and bytes of a value, 4 or 8 (4 bytes each), then the values, row by row, as little-endian
binary32 or binary64.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from everybit.core.observation import SumTable
from everybit.ledger.payload import PayloadError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from everybit.ledger.step import NamesOf

_COUNT: Final = struct.Struct("<I")
_HEAD: Final = struct.Struct("<IIII")
_WIDTHS: Final = (4, 8)


def sum_parts(tables: Sequence[SumTable], ids: Iterable[int]) -> list[bytes]:
    """Return the bytes of block sums; float32 values are kept as they are, others as float64."""
    import numpy as np

    parts = [_COUNT.pack(len(tables))]
    for table, table_id in zip(tables, ids, strict=True):
        values = np.asarray(table.values)
        wanted = "<f4" if values.dtype == np.float32 else "<f8"
        values = np.ascontiguousarray(values, wanted).reshape(len(table.names), -1)
        rows, columns = values.shape
        parts += (_HEAD.pack(table_id, rows, columns, values.itemsize), values.tobytes())
    return parts


def sum_ids(payload: memoryview, at: int) -> tuple[list[int], int]:
    """Return the ids of block sums' names, and where they end; raises `PayloadError`."""
    ids = []
    for table_id, _, _, _, _, end in _heads(payload, at):
        ids.append(table_id)
        at = end
    return ids, at if ids else at + _COUNT.size


def decode_sums(payload: memoryview, at: int, names_of: NamesOf) -> tuple[SumTable, ...]:
    """Read block sums back, as float64; those whose names are lost are left out.

    Raises:
        PayloadError: They do not fit into the payload.
    """
    import numpy as np

    found = []
    for table_id, rows, columns, width, start, _ in _heads(payload, at):
        known = names_of(table_id)
        if known is None:
            continue
        link, names = known
        if len(names) != rows:
            raise PayloadError(f"{rows} rows of sums for the {len(names)} names of a table")
        values = np.frombuffer(payload, f"<f{width}", rows * columns, start)
        wide = values.astype(np.float64).reshape(rows, columns)
        found.append(SumTable(link=link, names=names, values=wide))
    return tuple(found)


def _heads(payload: memoryview, at: int) -> list[tuple[int, int, int, int, int, int]]:
    """Return id, rows, columns, bytes of a value, first byte and end of each table of sums."""
    heads = []
    try:
        (count,) = _COUNT.unpack_from(payload, at)
        at += _COUNT.size
        for _ in range(count):
            table_id, rows, columns, width = _HEAD.unpack_from(payload, at)
            if width not in _WIDTHS:
                raise PayloadError(f"block sums of {width} bytes a value")
            start = at + _HEAD.size
            at = start + rows * columns * width
            if at > len(payload):
                raise PayloadError("its block sums do not fit into it")
            heads.append((table_id, rows, columns, width, start, at))
    except struct.error as error:
        raise PayloadError(f"its block sums do not fit into it ({error})") from error
    return heads

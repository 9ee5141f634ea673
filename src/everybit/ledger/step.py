"""Step payloads: a fixed head, the losses, one little-endian 64-bit word a tensor, block sums.

A step's payload::

    0   8  step
    8   8  time_s, float64        16  8  duration_s, float64      24  8  guard_s, float64
    32  4  flags: bit 0 skipped, bit 1 tainted, bit 2 has scalars, bit 3 has block sums (format 2)
    36  4  bytes of the optimizer's name       40  4  number of losses       44  4  number of tables
    48     the optimizer's name in UTF-8, the losses as float64, scalars, tables, block sums

Scalars are there only where bit 2 is set: their number (4 bytes), then for each the bytes of its
name (1 byte), its name in UTF-8, and its value as float64.

A table: its id (4 bytes, see `names.py`), its number of words (4 bytes), the words (8 bytes each).
Block sums are there only where bit 3 is set (`sums.py`).
The optimizer's few bytes are in every step, not interned: no step's meaning then hangs on another
frame more than it must. A payload of digests outside a step is: step (8 bytes), number of tables (4
bytes), the tables.
"""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING, Final

from everybit.core.observation import StepRecord, TensorTable
from everybit.ledger.payload import PayloadError
from everybit.ledger.sums import decode_sums, sum_ids, sum_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from everybit.core.link import Link

    #: From a table's id to its link and names; None where no intact frame defines it.
    NamesOf = Callable[[int], tuple[Link, tuple[str, ...]] | None]

HEAD: Final = struct.Struct("<QdddIIII")
_TABLES_HEAD: Final = struct.Struct("<QI")
_TABLE: Final = struct.Struct("<II")
SKIPPED: Final = 1
TAINTED: Final = 2
HAS_SCALARS: Final = 4
HAS_SUMS: Final = 8
_STEP: Final = struct.Struct("<Q")
_COUNT: Final = struct.Struct("<I")
_NUMBER: Final = struct.Struct("<d")
#: Bytes of a scalar beside its name: the name's length and the value.
_SCALAR_BYTES: Final = 1 + _NUMBER.size
_WORD: Final = (1 << 64) - 1


def encode_words(digests: Sequence[int]) -> bytes:
    """Return digests as little-endian 64-bit words; negative integers as two's complement."""
    if not isinstance(digests, tuple | list):
        try:
            view = memoryview(digests)  # type: ignore[arg-type]  # NumPy arrays, array("Q")
        except TypeError:
            digests = list(digests)
        else:
            if view.itemsize == 8 and view.format in _NATIVE_WORDS and view.ndim == 1:
                return view.tobytes()
    try:
        return struct.pack(f"<{len(digests)}Q", *digests)
    except struct.error:
        return struct.pack(f"<{len(digests)}Q", *[int(word) & _WORD for word in digests])


_NATIVE_WORDS: Final = frozenset("QLql" if sys.byteorder == "little" else "") | {"<Q", "<q"}


def encode_step(record: StepRecord, ids: Iterable[int]) -> bytes:
    """Return the payload of a step.

    Args:
        record: The step.
        ids: The ids of its tables' names, then those of its block sums, in order.
    """
    ids = list(ids)
    optimizer = record.optimizer.encode("utf-8", "surrogatepass")
    head = HEAD.pack(
        record.step,
        record.time_s,
        record.duration_s,
        record.guard_s,
        SKIPPED * record.skipped
        | TAINTED * record.tainted
        | HAS_SCALARS * bool(record.scalars)
        | HAS_SUMS * bool(record.sums),
        len(optimizer),
        len(record.losses),
        len(record.tables),
    )
    losses = struct.pack(f"<{len(record.losses)}d", *record.losses)
    scalars = _scalar_parts(record.scalars) if record.scalars else ()
    num_tables = len(record.tables)
    tables = _table_parts(record.tables, ids[:num_tables])
    sums = sum_parts(record.sums, ids[num_tables:]) if record.sums else ()
    return b"".join((head, optimizer, losses, *scalars, *tables, *sums))


def _scalar_parts(scalars: Mapping[str, float]) -> list[bytes]:
    parts = [_COUNT.pack(len(scalars))]
    for name, value in scalars.items():
        encoded = name.encode()
        parts.append(struct.pack(f"<B{len(encoded)}sd", len(encoded), encoded, value))
    return parts


def encode_tables(step: int, tables: Sequence[TensorTable], ids: Iterable[int]) -> bytes:
    """Return the payload of digests taken outside a step."""
    return b"".join((_TABLES_HEAD.pack(step, len(tables)), *_table_parts(tables, ids)))


def _table_parts(tables: Sequence[TensorTable], ids: Iterable[int]) -> list[bytes]:
    parts: list[bytes] = []
    for table, table_id in zip(tables, ids, strict=True):
        parts += (_TABLE.pack(table_id, len(table.names)), encode_words(table.digests))
    return parts


#: Where in a payload that begins which does not depend on when and how fast the step ran.
TIMELESS: Final = 32


def number_of(payload: memoryview) -> int:
    """Return the step of a payload that an index found in order."""
    (step,) = _STEP.unpack_from(payload)
    return int(step)


def find_table(payload: memoryview, ids: Collection[int]) -> tuple[int, int]:
    """Return where the first table of one of these ids begins and ends; (0, 0) with none.

    Raises:
        PayloadError: The payload is no step.
    """
    if len(payload) < HEAD.size:
        raise PayloadError("shorter than a step's head")
    _, _, _, _, flags, optimizer_bytes, num_losses, num_tables = HEAD.unpack_from(payload)
    at = HEAD.size + optimizer_bytes + 8 * num_losses
    if flags & HAS_SCALARS:
        at = _scalars_end(payload, at)
    for _ in range(num_tables):
        if at + _TABLE.size > len(payload):
            raise PayloadError("its tables do not fit into it")
        table_id, count = _TABLE.unpack_from(payload, at)
        end = at + _TABLE.size + 8 * count
        if table_id in ids:
            return at, end
        at = end
    return 0, 0


def table_at(payload: bytes, at: int, names: Mapping[int, tuple[str, ...]]) -> dict[str, int]:
    """Return the words of a table by name, given where it begins and the names of each id."""
    table_id, count = _TABLE.unpack_from(payload, at)
    words = struct.unpack_from(f"<{count}Q", payload, at + _TABLE.size)
    return dict(zip(names[table_id], words, strict=False))


def step_number(payload: memoryview) -> tuple[int, list[int]]:
    """Return a step payload's step and the ids of its tables, having checked that its parts fit.

    Raises:
        PayloadError: They do not.
    """
    if len(payload) < HEAD.size:
        raise PayloadError("shorter than a step's head")
    step, _, _, _, flags, optimizer_bytes, num_losses, num_tables = HEAD.unpack_from(payload)
    at = HEAD.size + optimizer_bytes + 8 * num_losses
    if flags & HAS_SCALARS:
        at = _scalars_end(payload, at)
    ids, at = _table_ids(payload, at, num_tables)
    if flags & HAS_SUMS:
        more, at = sum_ids(payload, at)
        ids += more
    _check_filled(payload, at)
    return int(step), ids


def _scalars_end(payload: memoryview, at: int) -> int:
    """Return where the scalars end; their names are read when the step is."""
    try:
        (count,) = _COUNT.unpack_from(payload, at)
        at += _COUNT.size
        for _ in range(count):
            at += payload[at] + _SCALAR_BYTES
    except (struct.error, IndexError) as error:
        raise PayloadError(f"its scalars do not fit into it ({error})") from error
    return at


def scalars_at(payload: memoryview, at: int) -> tuple[int, dict[str, float]]:
    """Return where the scalars end, and the scalars."""
    scalars: dict[str, float] = {}
    try:
        (count,) = _COUNT.unpack_from(payload, at)
        at += _COUNT.size
        for _ in range(count):
            size = payload[at]
            name = bytes(payload[at + 1 : at + 1 + size]).decode()
            (scalars[name],) = _NUMBER.unpack_from(payload, at + 1 + size)
            at += 1 + size + _NUMBER.size
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise PayloadError(f"its scalars do not fit into it ({error})") from error
    return at, scalars


def tables_number(payload: memoryview) -> tuple[int, list[int]]:
    """Do the same for digests outside a step."""
    if len(payload) < _TABLES_HEAD.size:
        raise PayloadError("shorter than its head")
    step, num_tables = _TABLES_HEAD.unpack_from(payload)
    ids, at = _table_ids(payload, _TABLES_HEAD.size, num_tables)
    _check_filled(payload, at)
    return int(step), ids


def _table_ids(payload: memoryview, at: int, num_tables: int) -> tuple[list[int], int]:
    """Return the tables' ids and where they end."""
    ids: list[int] = []
    size = len(payload)
    for _ in range(num_tables):
        if at + 8 > size:
            raise PayloadError("its tables do not fit into it")
        table_id, count = _TABLE.unpack_from(payload, at)
        ids.append(table_id)
        at += 8 + 8 * count
    return ids, at


def _check_filled(payload: memoryview, at: int) -> None:
    if at != len(payload):
        raise PayloadError("its parts do not fill it")


def decode_step(
    payload: memoryview, names_of: NamesOf, *, arrays: bool = False, sums: bool = True
) -> StepRecord:
    """Read a step back; tables whose names are lost are left out.

    Args:
        payload: Its bytes.
        names_of: From a table's id to its link and names.
        arrays: Digests as NumPy arrays (uint64), a hundredth of the cost of a tuple of integers.
        sums: Read its block sums, too.

    Raises:
        PayloadError: The payload is no step.
    """
    step_number(payload)
    (step, time_s, duration_s, guard_s, flags, optimizer_bytes, num_losses, num_tables) = (
        HEAD.unpack_from(payload)
    )
    at = HEAD.size + optimizer_bytes
    try:
        optimizer = bytes(payload[HEAD.size : at]).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise PayloadError(f"the optimizer's name is not UTF-8 ({error})") from error
    losses = struct.unpack_from(f"<{num_losses}d", payload, at)
    at += 8 * num_losses
    scalars: dict[str, float] = {}
    if flags & HAS_SCALARS:
        at, scalars = scalars_at(payload, at)
    tables, at = _decode_tables(payload, at, num_tables, names_of, arrays=arrays)
    return StepRecord(
        step=step,
        time_s=time_s,
        duration_s=duration_s,
        guard_s=guard_s,
        optimizer=optimizer,
        skipped=bool(flags & SKIPPED),
        tainted=bool(flags & TAINTED),
        losses=losses,
        tables=tables,
        scalars=scalars,
        sums=decode_sums(payload, at, names_of) if sums and flags & HAS_SUMS else (),
    )


def decode_tables(payload: memoryview, names_of: NamesOf) -> tuple[int, tuple[TensorTable, ...]]:
    """Read the step and the digests of a payload outside a step; raises `PayloadError`."""
    tables_number(payload)
    step, num_tables = _TABLES_HEAD.unpack_from(payload)
    return step, _decode_tables(payload, _TABLES_HEAD.size, num_tables, names_of)[0]


def _decode_tables(
    payload: memoryview, at: int, num_tables: int, names_of: NamesOf, *, arrays: bool = False
) -> tuple[tuple[TensorTable, ...], int]:
    """Return the tables and where they end."""
    tables = []
    for _ in range(num_tables):
        table_id, count = _TABLE.unpack_from(payload, at)
        known = names_of(table_id)
        if known is not None:
            link, names = known
            if len(names) != count:
                raise PayloadError(f"{count} digests for the {len(names)} names of a table")
            words = _words_at(payload, at + 8, count, arrays=arrays)
            tables.append(TensorTable(link=link, names=names, digests=words))
        at += 8 + 8 * count
    return tuple(tables), at


def _words_at(payload: memoryview, at: int, count: int, *, arrays: bool) -> Sequence[int]:
    if not arrays:
        return struct.unpack_from(f"<{count}Q", payload, at)
    import numpy as np

    # A copy: the payload is the reader's window, which moves on.
    return np.frombuffer(payload, "<u8", count, at).copy()  # type: ignore[return-value]

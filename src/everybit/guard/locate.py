"""From "these bytes changed" to elements, bits and the right bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from everybit.core.change import MAX_LISTED, changes_between
from everybit.core.damage import Damage, LocatedBy
from everybit.core.grid import BLOCK_ROWS, ROW_BYTES, WORD_BYTES
from everybit.guard.shards import shard_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from everybit.core.grid_locate import BlockDamage, WordDamage
    from everybit.guard.tracked import Tracked
    from everybit.probe.memory import TensorMemory

    Bytes = NDArray[np.uint8]

    #: Takes the bytes of a damaged tensor as found and, where they are known, the right ones.
    Keep = Callable[[Tracked, TensorMemory, Bytes, Bytes | None, Damage], None]


#: Ranges of elements that a finding names; the last one spans what is beyond.
MAX_RANGES = 4096

_BITS_OF = np.array([byte.bit_count() for byte in range(256)])


class Marked(Protocol):
    """What the search needs of marks, whatever the device."""

    tracked: list[Tracked]
    memories: list[TensorMemory]

    def blocks(self, index: int, found: Bytes) -> list[BlockDamage]: ...  # noqa: D102
    def right_bytes(self, index: int) -> Bytes | None: ...  # noqa: D102
    def agrees(self, index: int, data: Bytes) -> bool: ...  # noqa: D102


def find_damage(
    marks: Marked, index: int, *, heal: bool, doubt: str = "", keep: Keep | None = None
) -> Damage:
    """Locate the damage of one tensor, and put the right bytes back where asked and proven.

    Bytes are only put back when the healed tensor has the marked fingerprint.

    Args:
        marks: Marks that the tensor's bytes differ from.
        index: Which tensor.
        heal: Put the right bytes back.
        doubt: Why a writer that nothing counts may have done it.
        keep: Is handed the bytes, in memory order.
    """
    memory = marks.memories[index]
    found = memory.bytes_().copy()
    located_by = LocatedBy.SHADOW
    right = marks.right_bytes(index)
    blocks: list[BlockDamage] = []
    if right is None:
        located_by = LocatedBy.GRID
        blocks = marks.blocks(index, found)
        right = solved(found, blocks)
    elif len(found) <= ROW_BYTES:
        located_by = LocatedBy.VERBATIM
    confirmed = right is not None and marks.agrees(index, right)
    if right is None or not confirmed:
        damage = damage_by_rows(marks, index, blocks, len(found))
    else:
        item = marks.tracked[index]
        damage = damage_between(item, memory, right, found, located_by, heal=heal)
    damage = replace(damage, doubt=doubt) if doubt else damage
    if keep is not None:
        keep(marks.tracked[index], memory, found, right if confirmed else None, damage)
    return damage


def solved(found: Bytes, blocks: Sequence[BlockDamage]) -> Bytes | None:
    """Return the healed copy that the sums imply, or None where they do not determine it."""
    words: list[WordDamage] = []
    for block in blocks:
        if block.words is None:
            return None
        words += block.words
    return healed_copy(found, words) if words else None


def healed_copy(found: Bytes, damaged: Sequence[WordDamage]) -> Bytes | None:
    """Return a copy with damaged words put right; None where one lies outside."""
    padded = np.zeros(-(-len(found) // WORD_BYTES) * WORD_BYTES, np.uint8)
    padded[: len(found)] = found
    words = padded.view("<u8")
    for damage in damaged:
        if damage.word >= len(words):
            return None
        words[damage.word : damage.word + 1] -= np.uint64(damage.delta)  # no overflow warning
    return padded[: len(found)]


def damage_between(
    item: Tracked,
    memory: TensorMemory,
    right: Bytes,
    found: Bytes,
    located_by: LocatedBy,
    *,
    heal: bool,
) -> Damage:
    """Describe what differs between the right bytes and those found, in memory order.

    Args:
        item: The tensor.
        memory: Its memory.
        right: The right bytes.
        found: Those that are there.
        located_by: Where the right ones come from.
        heal: Put them back.
    """
    size = item.local.element_size()
    at = np.flatnonzero(right != found)
    num_bits = int(_BITS_OF[right[at] ^ found[at]].sum())
    places = np.unique(at // size)
    if heal:
        _put_back(memory, right, places)
    elements = np.sort(memory.elements(places))
    changes = [
        change
        for place in places[:MAX_LISTED].tolist()
        for change in changes_between(
            memory.dtype,
            right[place * size : (place + 1) * size].tobytes(),
            found[place * size : (place + 1) * size].tobytes(),
            memory.element(place),
        )
    ]
    few = len(elements) <= MAX_LISTED
    return Damage(
        **name_of(item),
        dtype=memory.dtype,
        elements=tuple(elements.tolist()) if few else (),
        element_ranges=() if few else _ranges(elements, MAX_RANGES),
        num_elements=len(elements),
        changes=tuple(sorted(changes, key=lambda change: change.element)),
        num_bits=num_bits,
        located_by=located_by,
        confirmed=True,
        healed=heal,
    )


def _put_back(memory: TensorMemory, right: Bytes, places: NDArray[np.intp]) -> None:
    size = memory.tensor.element_size()
    ranges = _ranges(places, len(places))
    if len(ranges) > MAX_RANGES:
        # Between the damaged elements the right bytes are those that are there.
        ranges = ((ranges[0][0], ranges[-1][1]),)
    for start, end in ranges:
        memory.write(start * size, right[start * size : end * size].tobytes())


def _ranges(ascending: NDArray[np.intp], limit: int) -> tuple[tuple[int, int], ...]:
    """Fold indices into `[start, end)` ranges; beyond the limit the last spans all the rest."""
    breaks = np.flatnonzero(np.diff(ascending) != 1)
    starts = ascending[np.concatenate(([0], breaks + 1))]
    ends = ascending[np.concatenate((breaks, [len(ascending) - 1]))] + 1
    if len(starts) > limit:
        starts, ends = starts[:limit], np.concatenate((ends[: limit - 1], ends[-1:]))
    return tuple(zip(starts.tolist(), ends.tolist(), strict=True))


def damage_by_rows(
    marks: Marked, index: int, blocks: Sequence[BlockDamage], num_bytes: int
) -> Damage:
    """Describe damage of which only the rows that hold it are known."""
    item, memory = marks.tracked[index], marks.memories[index]
    size = item.local.element_size()
    spans: list[tuple[int, int]] = []
    for block in blocks:
        rows = block.rows or range(block.block * BLOCK_ROWS, (block.block + 1) * BLOCK_ROWS)
        for row in rows:
            start, end = row * ROW_BYTES, min((row + 1) * ROW_BYTES, num_bytes)
            if start < end:
                spans.append((start // size, -(-end // size)))
    # Rows are runs of memory: without a row-major layout they are no ranges of elements.
    if not spans or (memory.dense and not item.local.is_contiguous()):
        spans = [(0, item.local.numel())]
    return Damage(
        **name_of(item),
        dtype=memory.dtype,
        element_ranges=_merged(spans),
        located_by=LocatedBy.ROWS,
        confirmed=False,
    )


def name_of(item: Tracked) -> dict[str, Any]:
    """Return the fields of a `Damage` that say which tensor it is."""
    return {
        "role": item.role,
        "parameter": item.parameter,
        "module": item.module,
        "optimizer": item.optimizer,
        "tensor": item.state,
        "shape": tuple(item.local.shape),
        "device": str(item.local.device),
        "shard": shard_of(item.tensor),
    }


def _merged(spans: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)

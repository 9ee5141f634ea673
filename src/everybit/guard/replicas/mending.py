"""Place what differs between two ranks' copies of a tensor, and put the right bytes back."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from everybit.core.change import MAX_LISTED, as_ranges
from everybit.core.damage import Damage, LocatedBy
from everybit.core.grid import BLOCK_BYTES, WORD_BYTES, GridSums
from everybit.core.grid_locate import locate
from everybit.guard.locate import damage_between, damage_by_rows, name_of, solved

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from everybit.core.grid_locate import BlockDamage
    from everybit.guard.replicas.snapshot import Place

    Bytes = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Right:
    """What is known of a right copy: its sums, and a fingerprint of its bytes where there is one.

    Attributes:
        sums: Grid sums of the bytes in memory order.
        fingerprint: XXH3-64, or the bytes themselves of a small tensor; empty where the tensor is
            on an accelerator.
    """

    sums: GridSums
    fingerprint: bytes

    @classmethod
    def of(cls, place: Place) -> Right:
        """Return it of this rank's copy."""
        mark = place.marks.fingerprint(place.index)
        if isinstance(mark, int):
            mark = mark.to_bytes(8, "little")
        return cls(place.sums(place.index), mark or b"")

    def agrees(self, data: Bytes) -> bool:
        """Whether these bytes are the right ones."""
        if not GridSums.of(data.data).equals(self.sums):
            return False
        return not self.fingerprint or self.fingerprint in _fingerprints(data)


def _fingerprints(data: Bytes) -> tuple[bytes, bytes]:
    import xxhash

    return data.tobytes(), xxhash.xxh3_64_intdigest(data.data).to_bytes(8, "little")


def pack(rights: Mapping[str, Right]) -> bytes:
    """Return the form that other ranks read."""
    arrays: dict[str, NDArray[Any]] = {}
    for index, (name, right) in enumerate(rights.items()):
        arrays[f"{index}.name"] = np.frombuffer(name.encode(), np.uint8)
        arrays[f"{index}.size"] = np.array([right.sums.num_bytes], np.int64)
        arrays[f"{index}.rows"] = right.sums.rows
        arrays[f"{index}.cols"] = right.sums.cols
        arrays[f"{index}.mark"] = np.frombuffer(right.fingerprint, np.uint8)
    return pack_arrays(arrays)


def unpack(data: bytes) -> dict[str, Right]:
    """Rebuild what `pack` was given."""
    arrays = unpack_arrays(data)
    return {
        arrays[f"{index}.name"].tobytes().decode(): Right(
            GridSums(
                int(arrays[f"{index}.size"][0]), arrays[f"{index}.rows"], arrays[f"{index}.cols"]
            ),
            arrays[f"{index}.mark"].tobytes(),
        )
        for index in range(len(arrays) // 5)
    }


def pack_arrays(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return arrays as one run of bytes; no pickle is in it."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def unpack_arrays(data: bytes) -> dict[str, NDArray[Any]]:
    """Rebuild what `pack_arrays` was given.

    Raises:
        ValueError: The bytes are something else.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (zipfile.BadZipFile, OSError, EOFError) as error:
        raise ValueError(f"another rank's note cannot be read: {error}") from error


class Mending:
    """One damaged copy on this rank, and what another rank's copy says of it.

    Args:
        place: Where it is.
        right: The other copy.
        lasting: The bytes are still as the step left them, so that they can be compared and healed.

    Attributes:
        right_bytes: The right bytes, in memory order, once they are known and proven.
    """

    def __init__(self, place: Place, right: Right, *, lasting: bool) -> None:
        self.place = place
        self.right = right
        self.right_bytes: Bytes | None = None
        self._found: Bytes | None = None
        self._blocks: list[BlockDamage] = []
        mine = place.sums(place.index)
        if mine.num_bytes != right.sums.num_bytes:
            return
        if lasting:
            self._found = place.marks.memories[place.index].bytes_().copy()
            mine = GridSums.of(self._found.data)
        self._blocks = locate(right.sums, mine)
        if self._found is not None:
            self._take(solved(self._found, self._blocks))

    @property
    def wanted(self) -> list[int]:
        """The blocks whose bytes the other rank has to send; none where the sums told them."""
        if self.right_bytes is not None or self._found is None:
            return []
        return [block.block for block in self._blocks]

    def patch(self, data: bytes) -> None:
        """Take the bytes of the wanted blocks, one after another."""
        if self._found is None:
            return
        patched, at = self._found.copy(), 0
        for block in self.wanted:
            start = block * BLOCK_BYTES
            size = min(BLOCK_BYTES, len(patched) - start)
            patched[start : start + size] = np.frombuffer(data[at : at + size], np.uint8)
            at += size
        self._take(patched)

    def damage(self, *, heal: bool) -> Damage:
        """Describe the damage, and put the right bytes back where asked and known."""
        item = self.place.item
        if self.right_bytes is None or self._found is None:
            return self._by_sums()
        memory = self.place.marks.memories[self.place.index]
        return damage_between(
            item, memory, self.right_bytes, self._found, LocatedBy.REPLICA, heal=heal
        )

    def _take(self, right: Bytes | None) -> None:
        if right is not None and self.right.agrees(right):
            self.right_bytes = right

    def _by_sums(self) -> Damage:
        """Describe it by sums alone: the bytes have moved on, or it is too wide."""
        item, memory = self.place.item, self.place.marks.memories[self.place.index]
        words = [word for block in self._blocks for word in block.words or ()]
        if len(words) > MAX_LISTED or any(block.words is None for block in self._blocks):
            return damage_by_rows(
                self.place.marks, self.place.index, self._blocks, self.right.sums.num_bytes
            )
        size = item.local.element_size()
        places = {at for word in words for at in _elements(word.word, word.delta, size)}
        found = np.array(sorted(at for at in places if at < item.local.numel()), np.intp)
        elements = tuple(sorted(memory.elements(found).tolist()))
        few = len(elements) <= MAX_LISTED
        return Damage(
            **name_of(item),
            dtype=memory.dtype,
            elements=elements if few else (),
            element_ranges=() if few else tuple(as_ranges(elements)),
            num_elements=len(elements),
            located_by=LocatedBy.REPLICA,
            confirmed=False,
        )


def _elements(word: int, delta: int, size: int) -> set[int]:
    """Return the elements of a word that a difference has changed, taken for the fewest.

    >>> _elements(3, 1 << 40, 4), _elements(3, 5, 4), _elements(3, 2**64 - 5, 4)
    ({7}, {6}, {6})
    """
    if size >= WORD_BYTES:
        return {word * WORD_BYTES // size}
    left = delta - (1 << 64) if delta >> 63 else delta
    bits = 8 * size
    place = word * (WORD_BYTES // size)
    changed = set()
    while left:
        part = left & ((1 << bits) - 1)
        if abs(left) >> bits == 0:
            part = left  # It alone explains all that is left.
        elif part >> (bits - 1):
            part -= 1 << bits
        if part:
            changed.add(place)
        left = (left - part) >> bits
        place += 1
    return changed

"""Whether the rows of a collated batch still lie where their samples do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
import xxhash

from everybit.core.contents import Pairing
from everybit.probe.digest import flatten

if TYPE_CHECKING:
    from collections.abc import Sequence

_Rows = list[bytes]
#: What is longer is compared by its digest.
_LONG_BYTES: Final = 64


def compare_rows(samples: Sequence[Any], batch: Any) -> Pairing | None:
    """Return what went astray between the samples and the batch that was made of them.

    A leaf is judged where its rows are, one for one, the samples' values: a collate function that
    pads, packs or transforms makes others, and nothing is said of them. Where all leaves were moved
    in the same way (sorted by length, say) nothing went astray.

    Args:
        samples: What `__getitem__` gave, in order.
        batch: What collate made of it.
    """
    rows_of = {path: rows for path, leaf in flatten(batch) if (rows := _rows(leaf, len(samples)))}
    if len(rows_of) < 2:
        return None
    given: dict[str, list[bytes | None]] = {}
    for sample in samples:
        for path, leaf in flatten(sample):
            given.setdefault(path, []).append(_value(leaf))
    orders: dict[str, tuple[list[int], int]] = {}
    for path, rows in rows_of.items():
        values = given.get(path, [])
        if len(values) == len(samples) and None not in values:
            found = _order(rows, [value for value in values if value is not None])
            if found is not None:
                orders[path] = found
    straight = list(range(len(samples)))
    # A leaf that says little (two labels) may look steady by chance; one that tells rows apart.
    steady = [
        path
        for path, (order, _) in orders.items()
        if order == straight and len(set(rows_of[path])) > len(samples) // 2
    ]
    moved = [path for path, (order, _) in orders.items() if order != straight]
    if not steady or not moved:
        return None
    order, shift = orders[moved[0]]
    astray = tuple(row for row, place in enumerate(order) if place != row)
    return Pairing(steady=steady[0], astray=moved[0], shift=shift, rows=astray)


def _rows(leaf: Any, count: int) -> _Rows:
    """Return what a batch's rows hold; nothing where it is no batch of so many."""
    if not isinstance(leaf, torch.Tensor) or leaf.device.type != "cpu" or not leaf.dim():
        return []
    if leaf.shape[0] != count or count < 2 or leaf.dtype is torch.bfloat16:
        return []
    try:
        array = leaf.detach().contiguous().numpy()
    except (RuntimeError, TypeError):
        return []
    return [_held(array[row]) for row in range(count)]


def _value(leaf: Any) -> bytes | None:
    """Return what a sample's value comes to as default collate would write it."""
    if isinstance(leaf, bool):
        return np.array(leaf).tobytes()
    if isinstance(leaf, int):
        return np.array(leaf, np.int64).tobytes() if -(2**63) <= leaf < 2**63 else None
    if isinstance(leaf, float):
        return np.array(leaf, np.float64).tobytes()
    if isinstance(leaf, torch.Tensor) and leaf.dtype is not torch.bfloat16:
        try:
            return _held(leaf.detach().contiguous().numpy())
        except (RuntimeError, TypeError):
            return None
    if isinstance(leaf, (np.ndarray, np.generic)) and not leaf.dtype.hasobject:
        return _held(np.ascontiguousarray(leaf))
    return None


def _held(values: Any) -> bytes:
    """Return the bytes of contiguous values, or their XXH3-128 where they are many."""
    if values.nbytes <= _LONG_BYTES:
        return bytes(values.tobytes())
    return xxhash.xxh3_128_digest(values.reshape(-1).view(np.uint8).data)


def _order(rows: _Rows, values: list[bytes]) -> tuple[list[int], int] | None:
    """Return for each row the sample whose value it holds, and by how much they are rolled.

    None where the rows hold other values. Where samples share a value a row keeps its own.
    """
    if sorted(rows) != sorted(values):
        return None
    places: dict[bytes, list[int]] = {}
    for place, value in enumerate(values):
        if rows[place] != value:
            places.setdefault(value, []).append(place)
    order = [
        row if values[row] == value else places[value].pop(0) for row, value in enumerate(rows)
    ]
    count = len(rows)
    rolls = (by for by in range(1, count) if rows == values[by:] + values[:by])
    return order, next(rolls, 0) if rows != values else 0

"""The arrays that a data set keeps in this process: whether reading samples writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from everybit.probe.contents.words import word_of_leaf

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Arrays of more bytes in all are not looked at.
MAX_BYTES: Final = 64 << 20
#: Arrays of ids hold at least so many.
MIN_IDS: Final = 64

Words = dict[str, tuple[int, int]]


def words_of(arrays: Mapping[str, Any]) -> Words:
    """Return `(identity, word)` of each array, by path; nothing where there is too much of them."""
    plain = {path: array for path, array in arrays.items() if not isinstance(array, np.memmap)}
    if sum(_num_bytes(array) for array in plain.values()) > MAX_BYTES:
        return {}
    return {path: (id(array), word_of_leaf(array)) for path, array in plain.items()}


def written_between(before: Words, after: Words) -> tuple[str, ...]:
    """Return the paths of arrays that are the same objects and hold other bytes."""
    return tuple(
        path
        for path, (identity, word) in before.items()
        if path in after and after[path][0] == identity and after[path][1] != word
    )


def id_types(arrays: Mapping[str, Any]) -> dict[str, str]:
    """Return the types of the arrays that may hold token ids, by path: the large integer ones."""
    found = {
        path: (str(array.dtype).removeprefix("torch."), _size(array))
        for path, array in arrays.items()
        if 0 < array.ndim <= 2 and _is_integer(array) and _size(array) >= MIN_IDS
    }
    largest = max((size for _, size in found.values()), default=0)
    return {path: dtype for path, (dtype, size) in found.items() if size * 4 >= largest}


def _size(array: Any) -> int:
    return int(array.numel() if isinstance(array, torch.Tensor) else array.size)


def _num_bytes(array: Any) -> int:
    return _size(array) * int(
        array.element_size() if isinstance(array, torch.Tensor) else array.dtype.itemsize
    )


def _is_integer(array: Any) -> bool:
    if isinstance(array, torch.Tensor):
        return not (array.is_floating_point() or array.is_complex() or array.dtype is torch.bool)
    return bool(np.issubdtype(array.dtype, np.integer))

"""Does one tensor hold the other's rows, columns or elements in another order.

Each slice along an axis gets a 64-bit word from its elements and their places in it, so that slices
of A and B can be matched by their words; a transposition is seen by one word over all elements and
the places that they would have. Streaming: a chunk and the words are held.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from everybit.diff.permutation import describe_permutation

if TYPE_CHECKING:
    from everybit.diff.stored import StoredTensor

#: More slices than this along one axis are not matched (64 MiB of words a side).
MAX_SLICES: Final = 4_000_000
#: Elements held at a time.
_BLOCK: Final = 1 << 18
_LISTED: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """How B's slices come from A's.

    Attributes:
        axis: The axis along which they were put in another order.
        moved: How many slices lie elsewhere.
        size: How many there are.
        first: The first places: B's slice `i` is A's slice `first[i]`.
        text: The order in words, where it has a name.
    """

    axis: int
    moved: int
    size: int
    first: tuple[int, ...]
    text: str


def find_order(a: StoredTensor, b: StoredTensor) -> Order | None:
    """Return how one axis of B is ordered otherwise than A's, or None.

    The tensors are of one dtype and shape. Slices that are equal among themselves stay in place
    where they can.
    """
    import numpy as np

    for axis, size in enumerate(a.shape):
        if not 1 < size <= MAX_SLICES:
            continue
        words_a, words_b = slice_words(a, axis), slice_words(b, axis)
        if (words_a == words_b).all():
            continue
        if not (np.sort(words_a) == np.sort(words_b)).all():
            continue
        order = _match(words_a, words_b)
        return Order(
            axis=axis,
            moved=int((order != np.arange(size)).sum()),
            size=size,
            first=tuple(order[:_LISTED].tolist()),
            text=describe_permutation(order),
        )
    return None


def same_elements(a: StoredTensor, b: StoredTensor) -> bool:
    """Return whether both hold the same elements in whatever order."""
    import numpy as np

    words = []
    for tensor in (a, b):
        word = np.uint64(0)
        for first in range(0, tensor.num_elements, _BLOCK):
            last = min(first + _BLOCK, tensor.num_elements)
            with np.errstate(over="ignore"):
                mixed = _mix(_elements(tensor, first, last), np.uint64(0))
                word = word + mixed.sum(dtype=np.uint64)
        words.append(int(word))
    return words[0] == words[1]


def is_transposed(a: StoredTensor, b: StoredTensor) -> tuple[int, ...] | None:
    """Return the order of A's axes that gives B, or None; only the last two, and all reversed."""
    rank = len(a.shape)
    if rank < 2 or a.itemsize not in (1, 2, 4, 8):
        return None
    wanted = None
    orders = [(*range(rank - 2), rank - 1, rank - 2), tuple(reversed(range(rank)))]
    for axes in dict.fromkeys(orders):
        if tuple(a.shape[axis] for axis in axes) != b.shape:
            continue
        if wanted is None:
            wanted = _place_word(b, None)
        if _place_word(a, axes) == wanted:
            return axes
    return None


def slice_words(tensor: StoredTensor, axis: int) -> Any:
    """Return a 64-bit word for each slice of a tensor along an axis."""
    import numpy as np

    size = tensor.shape[axis]
    outer = math.prod(tensor.shape[:axis])
    inner = math.prod(tensor.shape[axis + 1 :])
    words = np.zeros(size, np.uint64)
    if not outer * inner:
        return words
    block = size * inner
    if block <= _BLOCK:
        step = max(_BLOCK // block, 1)
        for first in range(0, outer, step):
            last = min(first + step, outer)
            data = _elements(tensor, first * block, last * block).reshape(-1, size, inner)
            places = np.arange(first * inner, last * inner, dtype=np.uint64)
            words += _mix(data, places.reshape(-1, 1, inner)).sum(axis=(0, 2), dtype=np.uint64)
        return words
    step = max(_BLOCK // inner, 1)
    for part in range(outer):
        for first in range(0, size, step):
            last = min(first + step, size)
            for begin in range(0, inner, _BLOCK):
                end = min(begin + _BLOCK, inner)
                # Long slices come one at a time, in pieces; short ones many at a time.
                low = (part * size + first) * inner + begin
                high = low + (last - first - 1) * inner + (end - begin)
                data = _elements(tensor, low, high).reshape(last - first, end - begin)
                places = np.arange(part * inner + begin, part * inner + end, dtype=np.uint64)
                words[first:last] += _mix(data, places).sum(axis=1, dtype=np.uint64)
    return words


def _match(words_a: Any, words_b: Any) -> Any:
    """Return where in A each slice of B lies; equal slices keep their places as far as they can."""
    import numpy as np

    order = np.arange(len(words_a))
    moved = np.flatnonzero(words_a != words_b)
    by_a = moved[np.argsort(words_a[moved], kind="stable")]
    by_b = moved[np.argsort(words_b[moved], kind="stable")]
    order[by_b] = by_a
    return order


def _place_word(tensor: StoredTensor, axes: tuple[int, ...] | None) -> int:
    """Return one word over all elements, each at its place with the axes put in this order."""
    import numpy as np

    total = tensor.num_elements
    word = np.uint64(0)
    strides = [0] * len(tensor.shape)
    if axes is not None:
        step = 1
        for axis in reversed(axes):
            strides[axis] = step
            step *= tensor.shape[axis]
    for first in range(0, total, _BLOCK):
        last = min(first + _BLOCK, total)
        places = np.arange(first, last, dtype=np.uint64)
        if axes is not None:
            rest, places = places, np.zeros_like(places)
            for axis in reversed(range(len(tensor.shape))):
                rest, index = np.divmod(rest, np.uint64(tensor.shape[axis]))
                places += index * np.uint64(strides[axis])
        with np.errstate(over="ignore"):
            word = word + _mix(_elements(tensor, first, last), places).sum(dtype=np.uint64)
    return int(word)


def _elements(tensor: StoredTensor, first: int, last: int) -> Any:
    """Return elements as words; those of 16 bytes, and of none of the usual sizes, are folded."""
    import numpy as np

    size = tensor.itemsize
    raw = tensor.read(first * size, last * size).ljust((last - first) * size, b"\0")
    if size in (1, 2, 4, 8):
        return np.frombuffer(raw, f"<u{size}").astype(np.uint64)
    parts = np.frombuffer(raw, "<u8").reshape(-1, size // 8)
    return parts[:, 0] * np.uint64(0x9E3779B97F4A7C15) + parts[:, -1]


def _mix(words: Any, places: Any) -> Any:
    import numpy as np

    with np.errstate(over="ignore"):
        mixed = words + (places + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))

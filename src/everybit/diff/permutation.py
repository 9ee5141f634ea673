"""A permutation in words: the orders that conversions and mistakes leave behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_NAMED: Final = 6
_MAX_DIVISORS: Final = 160


def describe_permutation(order: Any) -> str:
    """Return the name of an order, or "" where it has none.

    Args:
        order: NumPy integers; place `i` of the result holds what was at `order[i]`.

    >>> import numpy as np
    >>> describe_permutation(np.array([0, 3, 2, 1]))
    '1 and 3 exchanged'
    >>> describe_permutation(np.arange(12).reshape(2, 2, 3).swapaxes(1, 2).ravel())
    'reshape(2, 2, 3).swapaxes(1, 2): as between the two layouts of rotary embeddings'
    """
    import numpy as np

    size = len(order)
    moved = np.flatnonzero(order != np.arange(size))
    if not len(moved):
        return "as it was"
    if len(moved) == 2:
        return f"{moved[0]} and {moved[1]} exchanged"
    if (order == np.arange(size)[::-1]).all():
        return "reversed"
    shift = int(order[0])
    if (order == np.roll(np.arange(size), -shift)).all():
        return f"rotated by {shift}"
    for shape in _three_factors(size):
        swapped = np.arange(size).reshape(shape).swapaxes(1, 2)
        if (swapped[0, 0, : shape[1]] == order[: shape[1]]).all() and (
            swapped.ravel() == order
        ).all():
            return f"reshape{shape}.swapaxes(1, 2){_usual(shape)}"
        swapped = np.arange(size).reshape(shape).swapaxes(0, 1)
        if shape[0] > 1 and (swapped.ravel() == order).all():
            return f"reshape{shape}.swapaxes(0, 1){_heads(shape)}"
    if len(moved) <= _MAX_NAMED:
        return f"{', '.join(map(str, moved.tolist()))} among each other"
    low, high = int(moved[0]), int(moved[-1]) + 1
    if len(moved) < size and (order[low:high] == np.arange(low, high)[::-1]).all():
        return f"{low} to {high - 1} reversed"
    return ""


def _three_factors(size: int) -> Iterator[tuple[int, int, int]]:
    divisors = [each for each in range(1, int(size**0.5) + 1) if size % each == 0]
    divisors += [size // each for each in reversed(divisors) if each * each != size]
    for outer in divisors[:_MAX_DIVISORS]:
        rest = size // outer
        for middle in divisors[:_MAX_DIVISORS]:
            if 1 < middle < rest and rest % middle == 0:
                yield outer, middle, rest // middle


def _usual(shape: tuple[int, int, int]) -> str:
    if 2 in shape[1:]:
        return ": as between the two layouts of rotary embeddings"
    return ""


def _heads(shape: tuple[int, int, int]) -> str:
    if 3 in shape[:2]:
        return ": as between query, key and value by head and one after the other"
    return ""

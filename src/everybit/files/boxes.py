"""Boxes inside a tensor: whether the pieces of a sharded tensor make up the whole."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Where a piece begins along each dimension, and its shape.
Box = tuple[tuple[int, ...], tuple[int, ...]]

#: Pairs of boxes that are held against each other; their elements are counted in any case.
_MAX_PAIRS: Final = 200_000


def tiling_problem(shape: tuple[int, ...], boxes: Sequence[Box]) -> str:
    """Return why boxes do not fill a shape without gap or overlap, or "".

    Each lies inside, their elements add up, and no two share one: together that is proof.

    >>> tiling_problem((4, 2), [((0, 0), (2, 2)), ((2, 0), (2, 2))])
    ''
    >>> tiling_problem((4, 2), [((0, 0), (2, 2))])
    'parts of it are missing: 4 of 8 elements are there'
    """
    for offset, size in boxes:
        if len(offset) != len(shape) or len(size) != len(shape):
            return f"a part of it has {len(size)} dimensions, it has {len(shape)}"
        if any(a < 0 or n < 0 or a + n > m for a, n, m in zip(offset, size, shape, strict=True)):
            return f"a part at {list(offset)} of shape {list(size)} lies outside {list(shape)}"
    wanted = math.prod(shape)
    held = sum(math.prod(size) for _, size in boxes)
    if held < wanted:
        return f"parts of it are missing: {held} of {wanted} elements are there"
    return "parts of it overlap" if held > wanted or _overlap(boxes) else ""


def _overlap(boxes: Sequence[Box]) -> bool:
    """Return whether two boxes share an element: a sweep along the dimension that is cut most."""
    filled = [box for box in boxes if 0 not in box[1]]
    if len(filled) < 2 or not filled[0][0]:
        return len(filled) > 1
    axis = max(range(len(filled[0][0])), key=lambda each: len({box[0][each] for box in filled}))
    filled.sort(key=lambda box: box[0][axis])
    reaching: list[Box] = []
    num_pairs = 0
    for box in filled:
        reaching = [each for each in reaching if each[0][axis] + each[1][axis] > box[0][axis]]
        num_pairs += len(reaching)
        if num_pairs > _MAX_PAIRS:
            return False
        if any(_share(box, each) for each in reaching):
            return True
        reaching.append(box)
    return False


def _share(one: Box, other: Box) -> bool:
    return all(
        max(a, b) < min(a + m, b + n)
        for a, m, b, n in zip(one[0], one[1], other[0], other[1], strict=True)
    )

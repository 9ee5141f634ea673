"""The shape of damage in a tensor: one element, a run, a stride, a tile, or scattered."""

from __future__ import annotations

import math
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

#: More of a tile's elements than this share have to be damaged for it to be called one.
_MIN_FILLED: Final = 0.5
#: A stride is named from this many elements on: any two have one.
_MIN_STRIDED: Final = 3


class DamagePattern(StrEnum):
    """How damaged elements lie in a tensor."""

    SINGLE = "single"
    RUN = "run"
    STRIDE = "stride"
    TILE = "tile"
    SCATTERED = "scattered"
    WHOLE = "whole"


def describe_pattern(elements: Sequence[int], shape: Sequence[int]) -> dict[str, Any]:
    """Describe how damaged elements lie, as evidence.

    Args:
        elements: Flat row-major indices, in any order, at least one.
        shape: Of the tensor.

    Returns:
        `pattern`, one of `DamagePattern`; with `stride` where that is constant, and with `rows` and
        `columns` (`[start, end)` over the last dimension and all before it) for a tile.

    >>> describe_pattern([5], (4, 4))
    {'pattern': 'single'}
    >>> describe_pattern([0, 32, 64, 96], (1, 128))
    {'pattern': 'stride', 'stride': 32}
    >>> describe_pattern([5, 6, 9, 10], (4, 4))
    {'pattern': 'tile', 'rows': [1, 3], 'columns': [1, 3]}
    """
    indices = sorted(set(elements))
    total = math.prod(shape)
    if len(indices) == 1:
        return {"pattern": str(DamagePattern.SINGLE)}
    if len(indices) == total:
        return {"pattern": str(DamagePattern.WHOLE)}
    first, last = indices[0], indices[-1]
    if last - first + 1 == len(indices):
        return {"pattern": str(DamagePattern.RUN), "length": len(indices)}
    steps = {after - before for before, after in pairwise(indices)}
    if len(steps) == 1 and len(indices) >= _MIN_STRIDED:
        return {"pattern": str(DamagePattern.STRIDE), "stride": steps.pop()}
    width = shape[-1] if shape else 1
    rows = [index // width for index in indices]
    columns = [index % width for index in indices]
    tile = [min(rows), max(rows) + 1], [min(columns), max(columns) + 1]
    size = (tile[0][1] - tile[0][0]) * (tile[1][1] - tile[1][0])
    if size < total and len(indices) > _MIN_FILLED * size:
        return {"pattern": str(DamagePattern.TILE), "rows": tile[0], "columns": tile[1]}
    return {"pattern": str(DamagePattern.SCATTERED), "span": last - first + 1}

"""Where parity's stripes run: every leaf of every file belongs to one stripe.

The leaves of all files, in the order of their paths, form one row. With S stripes leaf i belongs to
stripe i mod S, so neighbours lie in different stripes and a contiguous loss of S leaves is one loss
a stripe. A stripe has up to K leaves of data and m blocks of parity, and bears m losses.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from everybit.core.errors import UsageError
from everybit.core.tree import LEAF_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

#: liberasurecode takes no more blocks of data and parity together.
_MAX_BLOCKS_OF_STRIPE: Final = 32
_MAX_REDUNDANCY: Final = 2.0
_MIN_REDUNDANCY: Final = 0.0001
#: ISA-L works on whole vectors.
_BLOCK_STEP: Final = 64
_TOO_LITTLE: Final = 1.05


class Code(StrEnum):
    """How parity is computed."""

    XOR = "xor"
    REED_SOLOMON = "rs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The geometry of a parity set.

    Attributes:
        files: `(path, size in bytes)` in the order of their leaves.
        code: How parity is computed.
        stripes: Number of stripes, S.
        data_per_stripe: Most leaves a stripe, K.
        parity_per_stripe: Parity blocks a stripe, m; 1 for XOR.
        block_bytes: Size of a parity block: a leaf, or less where all files are smaller.
        first_leaves: For each file the index of its first leaf, and at last the number of leaves.
    """

    files: tuple[tuple[str, int], ...]
    code: Code
    stripes: int
    data_per_stripe: int
    parity_per_stripe: int
    block_bytes: int
    first_leaves: tuple[int, ...]

    @property
    def num_leaves(self) -> int:
        """Leaves of all files together."""
        return self.first_leaves[-1]

    @property
    def num_blocks(self) -> int:
        """Parity blocks."""
        return self.stripes * self.parity_per_stripe

    @property
    def num_bytes(self) -> int:
        """Bytes of all files together."""
        return sum(size for _, size in self.files)

    @property
    def contiguous_leaves(self) -> int:
        """How many leaves one after the other can be lost, wherever they lie."""
        return self.stripes * self.parity_per_stripe

    def file_of(self, leaf: int) -> tuple[int, int]:
        """Return the index of the file that holds a leaf, and which leaf of the file it is."""
        index = bisect.bisect_right(self.first_leaves, leaf) - 1
        return index, leaf - self.first_leaves[index]

    def leaf_bytes(self, leaf: int) -> int:
        """Return how many bytes a leaf has."""
        index, inner = self.file_of(leaf)
        return min(LEAF_BYTES, self.files[index][1] - inner * LEAF_BYTES)

    def stripe_leaves(self, stripe: int) -> range:
        """Return the leaves of a stripe."""
        return range(stripe, self.num_leaves, self.stripes)


def num_leaves_of(size: int) -> int:
    """Return how many leaves a file of `size` bytes has."""
    return -(-size // LEAF_BYTES)


def place_leaves(files: Iterable[tuple[str, int]]) -> tuple[int, ...]:
    """Return the index of each file's first leaf, and the number of all leaves at the end."""
    starts = [0]
    for _, size in files:
        starts.append(starts[-1] + num_leaves_of(size))
    return tuple(starts)


def block_bytes_for(files: Iterable[tuple[str, int]]) -> int:
    """Return the size of a parity block: the longest leaf, in whole vectors."""
    longest = min(LEAF_BYTES, max((size for _, size in files), default=0))
    return max(_BLOCK_STEP, -(-longest // _BLOCK_STEP) * _BLOCK_STEP)


def choose_layout(
    files: Iterable[tuple[str, int]], redundancy: float, code: Code | None = None
) -> Layout:
    """Return the layout that spends `redundancy` of the data on parity.

    Args:
        files: `(path, size in bytes)`.
        redundancy: Parity as a share of the data, 0.05 for 5 %.
        code: XOR up to 100 % unless asked for otherwise; above it only Reed-Solomon can.

    Raises:
        UsageError: No code does that.
    """
    if not _MIN_REDUNDANCY <= redundancy <= _MAX_REDUNDANCY:
        raise UsageError(
            f"no parity of {redundancy:.6g} of the data", todo="give 0.01% to 200%, such as 5%"
        )
    if code is None:
        code = Code.XOR if redundancy <= 1 else Code.REED_SOLOMON
    ordered = tuple(sorted(files))
    starts = place_leaves(ordered)
    total = starts[-1]
    if code is Code.XOR:
        if redundancy > 1:
            raise UsageError(
                "XOR parity is at most as large as the data", todo="give --parity-code rs"
            )
        # Two stripes at least: with one, no loss across the border of two leaves is borne.
        stripes = min(total, max(2, math.ceil(redundancy * total)))
        data, parity = -(-total // stripes) if stripes else 0, 1
    else:
        data, parity = _reed_solomon(redundancy)
        if total <= data:
            data, parity = total, max(2, math.ceil(redundancy * total)) if total else 0
        stripes = -(-total // data) if data else 0
    return Layout(
        files=ordered,
        code=code,
        stripes=stripes,
        data_per_stripe=data,
        parity_per_stripe=parity,
        block_bytes=block_bytes_for(ordered),
        first_leaves=starts,
    )


def _reed_solomon(redundancy: float) -> tuple[int, int]:
    """Return data and parity blocks a stripe: the longest stripe that does not overspend."""
    best: tuple[int, int] | None = None
    for data in range(1, _MAX_BLOCKS_OF_STRIPE - 1):
        parity = math.ceil(redundancy * data - 1e-9)
        if parity < 2 or data + parity > _MAX_BLOCKS_OF_STRIPE:
            continue
        near = parity / data <= _TOO_LITTLE * redundancy
        if best is None or near or parity / data < best[1] / best[0]:
            best = data, parity
    if best is None or best[1] / best[0] > 1.5 * redundancy:
        least = 200 / (_MAX_BLOCKS_OF_STRIPE - 2)
        raise UsageError(
            f"Reed-Solomon parity that bears two losses a stripe takes {least:.1f}% or more",
            todo=f"give --parity {math.ceil(least)}%, or leave --parity-code out",
        )
    return best


def parse_redundancy(text: str | float) -> float:
    """Return a share of the data from `5%` or `0.05`.

    Raises:
        UsageError: It is neither.

    >>> parse_redundancy("5%"), parse_redundancy("0.1")
    (0.05, 0.1)
    """
    given = str(text).strip()
    percent = given.endswith("%")
    try:
        value = float(given.removesuffix("%"))
    except ValueError:
        value = math.nan
    if percent:
        value /= 100
    elif value >= 1:
        # 5 could mean 5 % or five times the data.
        raise UsageError(f"parity of {given!r} is ambiguous", todo=f"write {given}% or a ratio")
    if not _MIN_REDUNDANCY <= value <= _MAX_REDUNDANCY:
        raise UsageError(f"no parity of {given!r}", todo="give 0.01% to 200%, such as 5%")
    return value

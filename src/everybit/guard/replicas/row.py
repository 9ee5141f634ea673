"""The row of integers that each rank shows of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Row = NDArray[np.int64]

#: Sets of ranks that a rank's tensors may have copies on.
MAX_CLASSES: Final = 6
STEP, LAYOUT, UNSETTLED, VOID, ASKED, INIT, WHOLE, HEAD = range(8)


def row_of(
    step: int,
    layout: int,
    digests: Sequence[tuple[int, int]] | None,
    *,
    void: bool,
    asked: int,
    wholes: tuple[int, int] = (0, 0),
) -> Row:
    """Return a row.

    Args:
        step: The update.
        layout: A word for what the digests are of.
        digests: Key and digest of each set of ranks with copies; None while that is not settled.
        void: Nothing in it is to be compared.
        asked: The number of the question that this rank has put up last, 0 for none.
        wholes: Words for the sums of shards that this rank would add up with those of all others:
            of what the run began with, and of this step; 0 for none.
    """
    row = np.zeros(HEAD + 2 * MAX_CLASSES, np.int64)
    row[STEP], row[LAYOUT], row[VOID], row[ASKED] = step, layout, void, asked
    row[INIT], row[WHOLE] = wholes
    row[UNSETTLED] = digests is None
    for index, pair in enumerate((digests or ())[:MAX_CLASSES]):
        row[HEAD + 2 * index : HEAD + 2 * index + 2] = pair
    return row


def classes_agree(rows: Row) -> bool:
    """Whether ranks of the same class show the same digest.

    Args:
        rows: int64, one row a rank.
    """
    pairs = rows[:, HEAD:]
    if (pairs == pairs[0]).all():
        return True
    digests: dict[int, list[int]] = {}
    for row in pairs.tolist():
        for key, digest in zip(row[::2], row[1::2], strict=True):
            if key:
                digests.setdefault(key, []).append(digest)
    # A class that one rank alone knows of: the others have dropped a tensor of it.
    return all(len(each) > 1 and len(set(each)) == 1 for each in digests.values())

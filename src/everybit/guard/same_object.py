"""An object that is remembered and not kept: whether another one is the very same."""

from __future__ import annotations

import weakref
from typing import Any


class SameObject:
    """Know an object again without keeping it alive.

    The identity of an object that is gone may be given to a new one. So it is held weakly; a list
    or tuple, which cannot be, is known by its identity, its length, and its first and last item,
    which are kept.

    Args:
        value: The object.

    >>> numbers = [[1], [2]]
    >>> SameObject(numbers).is_same(numbers), SameObject(numbers).is_same([[1], [2]])
    (True, False)
    """

    def __init__(self, value: Any) -> None:
        self._reference: weakref.ref[Any] | None = None
        try:
            self._reference = weakref.ref(value)
        except TypeError:
            self._identity, self._ends = id(value), _ends(value)

    @property
    def keeps_items(self) -> bool:
        """Whether items of it are kept to know it by."""
        return self._reference is None

    @property
    def is_gone(self) -> bool:
        """Whether it is known to be gone; of a list that is not known."""
        return self._reference is not None and self._reference() is None

    def is_same(self, value: Any) -> bool:
        """Whether it is this object."""
        if self._reference is not None:
            return value is not None and self._reference() is value
        if id(value) != self._identity:
            return False
        (mine, length), (here, length_here) = self._ends, _ends(value)
        return length == length_here and all(a is b for a, b in zip(mine, here, strict=True))


def _ends(value: Any) -> tuple[list[Any], int]:
    if type(value) not in (list, tuple) or not value:
        return [], -1
    return [value[0], value[-1]], len(value)

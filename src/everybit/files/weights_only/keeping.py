"""Which values Python can keep in a dictionary or a set, and what hashing them costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.files.pickles.nodes import TupleNode
from everybit.files.weights_only.values import Device, Known, Layout, Size

if TYPE_CHECKING:
    from everybit.files.weights_only.values import Value

_PLAIN: Final = (bool, int, float, complex, str, bytes, Known, Device, Layout, Size)
#: Tuples share each other, so hashing one can take time exponential in the pickle.
_MAX_PARTS: Final = 10_000
_MAX_DEPTH: Final = 100


def hash_cost(value: Value) -> int | None:
    """Return how many parts are hashed for a value; None where it is not proved to be hashable.

    A tensor is hashable, but comparing one can raise; it is not counted as a key.
    """
    if value is None or type(value) in _PLAIN:
        return 1
    if type(value) is not TupleNode:
        return None
    parts = 0
    todo: list[tuple[Value, int]] = [(value, 0)]
    while todo:
        part, depth = todo.pop()
        parts += 1
        if parts > _MAX_PARTS or depth > _MAX_DEPTH:
            return None
        if type(part) is TupleNode:
            todo.extend((item, depth + 1) for item in part.items)
        elif part is not None and type(part) not in _PLAIN:
            return None
    return parts

"""From changed bytes of a file to the changed elements of a tensor, with both values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.core.change import Change, changes_between
from everybit.core.dtype import ITEMSIZE
from everybit.files.element_places import element_at
from everybit.files.elements import canonical_element

if TYPE_CHECKING:
    from collections.abc import Mapping

    from everybit.files.source import ByteSource
    from everybit.files.tensor import FileTensor

_MAX_BYTES: Final = 4096


def changes_in(source: ByteSource, tensor: FileTensor, right: Mapping[int, int]) -> list[Change]:
    """Return the elements of a tensor that changed bytes touch.

    Args:
        source: The damaged file.
        tensor: A tensor of it, placed in the undamaged layout.
        right: `{file offset: byte that should be there}`.

    Returns:
        Changes by element, empty where the bytes hold none of the tensor's elements. An element
        that strides repeat is told once.
    """
    if tensor.unreadable or tensor.inline is not None or tensor.dtype not in ITEMSIZE:
        return []
    size = tensor.itemsize
    touched: dict[int, dict[int, int]] = {}
    for offset in sorted(right)[:_MAX_BYTES]:
        if any(start <= offset < end for start, end in tensor.byte_ranges):
            at = tensor.start + (offset - tensor.start) // size * size
            touched.setdefault(at, {})[offset - at] = right[offset]
    changes: list[Change] = []
    for at, wrong in touched.items():
        element = element_at(tensor, (at - tensor.start) // size)
        if element is None:
            continue
        after = source.read(at, size).ljust(size, b"\0")
        before = bytearray(after)
        for index, byte in wrong.items():
            before[index] = byte
        changes += changes_between(
            tensor.dtype,
            canonical_element(tensor, bytes(before)),
            canonical_element(tensor, after),
            element,
        )
    return sorted(changes, key=lambda change: change.element)

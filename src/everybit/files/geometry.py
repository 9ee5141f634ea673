"""Sizes of stored elements, and how shapes and strides lay elements out; no torch."""

from __future__ import annotations

from typing import Final

from everybit.core.dtype import ITEMSIZE

#: Element sizes of dtypes that files can hold and for which no value can be decoded.
_OPAQUE: Final = {
    "bits8": 1,
    "bits16": 2,
    "bits1x8": 1,
    "bits2x4": 1,
    "bits4x2": 1,
}

#: Element sizes of everything a file can hold, in bytes.
STORED_ITEMSIZE: Final[dict[str, int]] = {**ITEMSIZE, **_OPAQUE}

MAX_DIMENSIONS: Final = 64
_MAX_ELEMENTS: Final = 1 << 62


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor.

    >>> row_major((2, 3, 4))
    (12, 4, 1)
    """
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def normal_stride(shape: tuple[int, ...], stride: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides with those that are never walked set as in a contiguous tensor.

    The stride of a dimension of size one says nothing, nor does any stride of an empty tensor, and
    writers leave anything there.
    """
    contiguous = row_major(shape)
    if 0 in shape:
        return contiguous
    walked = list(stride)
    for axis, size in enumerate(shape):
        if size == 1:
            walked[axis] = contiguous[axis]
    return tuple(walked)


def shape_problem(shape: tuple[int, ...]) -> str:
    """Return why a shape cannot be, or ""."""
    if len(shape) > MAX_DIMENSIONS:
        return f"{len(shape)} dimensions"
    if any(size < 0 for size in shape):
        return f"negative size in shape {list(shape)}"
    product = 1
    for size in shape:
        product *= max(size, 1)
        if product > _MAX_ELEMENTS:
            return f"more than 2^62 elements in shape {[str(size)[:20] for size in shape]}"
    return ""


def extent(shape: tuple[int, ...], stride: tuple[int, ...]) -> int:
    """Return how many elements of storage the strides span, from the first to the last.

    >>> extent((2, 3), (1, 2))
    6
    """
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))

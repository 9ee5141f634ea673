"""Which elements of a tensor some bytes of its file hold, whatever its strides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from everybit.files.geometry import extent, row_major

if TYPE_CHECKING:
    from everybit.files.tensor import FileTensor

_BLOCK_ELEMENTS: Final = 1 << 20
_MAX_VISITS: Final = 10_000


def elements_at(tensor: FileTensor, start: int, end: int) -> list[tuple[int, int]]:
    """Return the flat element ranges that file bytes `[start, end)` hold.

    Args:
        tensor: A tensor of the file; `byte_ranges` must touch the bytes.
        start: File offset.
        end: File offset, excluded.

    Returns:
        Sorted `[first, last)` ranges. For strides that overlap or leave gaps, and for arrays inside
        a pickle, the whole tensor.
    """
    size = tensor.itemsize
    span = extent(tensor.shape, tensor.stride)
    if tensor.inline is not None or not span:
        return [(0, tensor.num_elements)] if tensor.num_elements else []
    low = max(0, (start - tensor.start) // size)
    high = min(span, -(-(end - tensor.start) // size))
    if low >= high:
        return []
    if tensor.plain or tensor.stride == row_major(tensor.shape):
        return [(low, high)]
    axes = sorted(
        (axis for axis, length in enumerate(tensor.shape) if length > 1),
        key=lambda axis: -tensor.stride[axis],
    )
    dense = 1
    for axis in reversed(axes):
        if tensor.stride[axis] < dense:
            return [(0, tensor.num_elements)]
        dense = tensor.stride[axis] * tensor.shape[axis]
    return _scattered(tensor, axes, low, high)


def element_at(tensor: FileTensor, place: int) -> int | None:
    """Return a flat index of the element at a storage index, counted from the tensor's first.

    None where strides skip it. Where strides repeat it, one of its indices.
    """
    axes = sorted(
        (axis for axis, size in enumerate(tensor.shape) if size > 1 and tensor.stride[axis]),
        key=lambda axis: -tensor.stride[axis],
    )
    if not axes:
        return 0 if place == 0 and tensor.num_elements else None
    flat_step = row_major(tensor.shape)
    reach = [0] * (len(axes) + 1)  # what the axes from here on span
    for depth in reversed(range(len(axes))):
        axis = axes[depth]
        reach[depth] = reach[depth + 1] + (tensor.shape[axis] - 1) * tensor.stride[axis]
    todo = [(0, place, 0)]
    for _ in range(_MAX_VISITS):
        if not todo:
            break
        depth, rest, flat = todo.pop()
        if depth == len(axes):
            if rest == 0:
                return flat
            continue
        axis = axes[depth]
        step = tensor.stride[axis]
        low = max(0, -(-(rest - reach[depth + 1]) // step))
        high = min(tensor.shape[axis] - 1, rest // step)
        todo.extend(
            (depth + 1, rest - index * step, flat + index * flat_step[axis])
            for index in range(high, max(low, high - _MAX_VISITS) - 1, -1)
        )
    return None


def _scattered(tensor: FileTensor, axes: list[int], low: int, high: int) -> list[tuple[int, int]]:
    import numpy as np

    flat_step = row_major(tensor.shape)
    found: list[Any] = []
    num_held = 0
    for begin in range(low, high, _BLOCK_ELEMENTS):
        rest = np.arange(begin, min(begin + _BLOCK_ELEMENTS, high), dtype=np.int64)
        flat = np.zeros(len(rest), dtype=np.int64)
        inside = np.ones(len(rest), dtype=bool)
        for axis in axes:
            index, rest = np.divmod(rest, tensor.stride[axis])
            inside &= index < tensor.shape[axis]
            flat += index * flat_step[axis]
        found.append(np.sort(flat[inside & (rest == 0)]))
        num_held += len(found[-1])
        if num_held > 4 * _BLOCK_ELEMENTS:
            return [(0, tensor.num_elements)]
    flat = np.sort(np.concatenate(found))
    if not len(flat):
        return []
    cuts = np.flatnonzero(np.diff(flat) > 1) + 1
    starts = flat[np.concatenate(([0], cuts))]
    ends = flat[np.concatenate((cuts - 1, [len(flat) - 1]))] + 1
    return [(int(a), int(b)) for a, b in zip(starts, ends, strict=True)]

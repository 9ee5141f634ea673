"""Canonical bytes of a stored tensor, whatever its strides; and which elements some bytes hold.

Canonical bytes are the elements contiguous in row-major order and little-endian. A plain tensor is
read straight through. Any other is gathered with NumPy, in blocks, so that memory stays bounded.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from everybit.core.tree import TreeHasher
from everybit.files.tensor import FileTensor, extent, row_major

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.core.digest import Digest
    from everybit.files.source import ByteSource

#: Storage up to this size is held in memory while a strided tensor is gathered from it.
WINDOW_BYTES: Final = 64 * 1024 * 1024
_BLOCK_ELEMENTS: Final = 1 << 20
#: A tensor that repeats its storage (`expand`) into more bytes than this has no digest.
_MAX_REPEATED_BYTES: Final = 1 << 30
_KINDS: Final = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "V16"}
_MAX_VISITS: Final = 10_000
_COMPLEX: Final = ("complex32", "complex64", "complex128")


def expands_too_far(tensor: FileTensor) -> bool:
    """Return whether strides of zero or overlaps blow the stored bytes up beyond reading."""
    stored = extent(tensor.shape, tensor.stride) * tensor.itemsize
    return tensor.num_bytes > max(_MAX_REPEATED_BYTES, 2 * stored)


def canonical_chunks(
    source: ByteSource, tensor: FileTensor, start: int = 0, end: int | None = None
) -> Iterator[Any]:
    """Yield canonical bytes from `start` to `end`, in order, as short-lived buffers.

    Args:
        source: The tensor's file.
        tensor: A tensor of it, readable.
        start: First byte, counted in canonical bytes.
        end: Last byte, excluded; all where None. Fewer come where the file is shorter.

    Raises:
        PathError: The file cannot be read.
    """
    end = tensor.num_bytes if end is None else min(end, tensor.num_bytes)
    if start >= end:
        return
    if tensor.plain:
        yield from source.chunks(tensor.start + start, tensor.start + end)
        return
    size = tensor.itemsize
    skip = start % size
    first, last = start // size, -(-end // size)
    left = end - start
    for block in _gathered(source, tensor, first, last):
        view = memoryview(block)[skip : skip + left]
        skip = 0
        left -= len(view)
        yield view


def tensor_digest(source: ByteSource, tensor: FileTensor) -> Digest:
    """Return the `tree` digest of a readable tensor's canonical bytes."""
    hasher = TreeHasher()
    for chunk in canonical_chunks(source, tensor):
        hasher.update(chunk)
    return hasher.digest(tensor.dtype, tensor.shape)


def _gathered(source: ByteSource, tensor: FileTensor, first: int, last: int) -> Iterator[bytes]:
    import numpy as np

    size = tensor.itemsize
    num_bytes = extent(tensor.shape, tensor.stride) * size
    if tensor.inline is not None:
        window = tensor.inline
    elif num_bytes <= WINDOW_BYTES:
        window = source.read(tensor.start, num_bytes)
    else:
        window = b""
    held = None
    if window:
        # A file that shrank meanwhile gives zeros; its size tells, not its digests.
        held = np.frombuffer(window.ljust(num_bytes, b"\0"), dtype=_KINDS[size])
    for begin in range(first, last, _BLOCK_ELEMENTS):
        places = _storage_places(tensor, begin, min(begin + _BLOCK_ELEMENTS, last))
        block = held[places] if held is not None else _pick(source, tensor, places)
        yield _as_values(block, tensor)


def _storage_places(tensor: FileTensor, begin: int, end: int) -> Any:
    """Return the storage index, from the tensor's first element, of flat elements begin to end."""
    import numpy as np

    rest = np.arange(begin, end, dtype=np.int64)
    places = np.zeros(end - begin, dtype=np.int64)
    for length, step in zip(reversed(tensor.shape), reversed(tensor.stride), strict=True):
        if length > 1:
            rest, index = np.divmod(rest, length)
            places += index * step
    return places


def _pick(source: ByteSource, tensor: FileTensor, places: Any) -> Any:
    """Read single elements of a storage too large to hold: sorted, near ones together."""
    import numpy as np

    size = tensor.itemsize
    order = np.argsort(places, kind="stable")
    ranked = places[order]
    out = np.empty(len(places), dtype=_KINDS[size])
    gaps = np.flatnonzero(np.diff(ranked) * size > 4096) + 1
    bounds = [0, *gaps.tolist(), len(ranked)]
    for low, high in itertools.pairwise(bounds):
        while low < high:
            # Near elements can still span far, so cut their range to what is held at once.
            limit = ranked[low] + WINDOW_BYTES // size
            stop = low + int(np.searchsorted(ranked[low:high], limit))
            base, top = int(ranked[low]), int(ranked[stop - 1]) + 1
            wanted = (top - base) * size
            data = source.read(tensor.start + base * size, wanted).ljust(wanted, b"\0")
            out[order[low:stop]] = np.frombuffer(data, dtype=out.dtype)[ranked[low:stop] - base]
            low = stop
    return out


def _as_values(block: Any, tensor: FileTensor) -> bytes:
    """Apply byte order, conjugation and negation to gathered elements."""
    import numpy as np

    raw = np.ascontiguousarray(block).view(np.uint8)
    part = tensor.itemsize // (2 if tensor.dtype in _COMPLEX else 1)
    if tensor.big_endian and part > 1:
        raw = raw.reshape(-1, part)[:, ::-1].reshape(-1).copy()
    signs = raw.reshape(-1, part)[:, part - 1]
    if (tensor.negative or tensor.conjugate) and not raw.flags.writeable:
        raw = raw.copy()
        signs = raw.reshape(-1, part)[:, part - 1]
    if tensor.negative:
        signs ^= 0x80
    if tensor.conjugate and tensor.dtype in _COMPLEX:
        signs[1::2] ^= 0x80
    return bytes(raw.data)


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


def canonical_element(tensor: FileTensor, stored: bytes) -> bytes:
    """Return one stored element as canonical bytes: byte order, conjugation, negation applied."""
    part = tensor.itemsize // (2 if tensor.dtype in _COMPLEX else 1)
    parts = [bytearray(stored[at : at + part]) for at in range(0, len(stored), part)]
    for index, piece in enumerate(parts):
        if tensor.big_endian:
            piece.reverse()
        if tensor.negative != (tensor.conjugate and index == 1):
            piece[-1] ^= 0x80
    return b"".join(parts)

"""Canonical bytes of a stored tensor, whatever its strides.

Canonical bytes are the elements contiguous in row-major order and little-endian. A plain tensor is
read straight through. Any other is gathered with NumPy, in blocks, so that memory stays bounded.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from everybit.core.tree import TreeHasher
from everybit.files.geometry import extent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.core.digest import Digest
    from everybit.files.source import ByteSource
    from everybit.files.tensor import FileTensor

#: Storage up to this size is held in memory while a strided tensor is gathered from it.
WINDOW_BYTES: Final = 64 * 1024 * 1024
_BLOCK_ELEMENTS: Final = 1 << 20
#: A tensor that repeats its storage (`expand`) into more bytes than this has no digest.
_MAX_REPEATED_BYTES: Final = 1 << 30
_KINDS: Final = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "V16"}
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

"""Whether a value stands out of its tensor: the second witness for a flipped bit.

A checksum that one flip explains can be mimicked by wider damage elsewhere in the member. Then the
element that the flip would mend is a whole one, with a value like its neighbours'. So the witness
is that the element found stands out of its tensor and the one put right does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from everybit.core.dtype import decode
from everybit.files.elements import canonical_element

if TYPE_CHECKING:
    from everybit.files.source import ByteSource
    from everybit.files.tensor import FileTensor

#: Fewer elements than this are no distribution.
MIN_ELEMENTS: Final = 64
_MAX_SAMPLED: Final = 1 << 20
_CHUNKS: Final = 64
#: The mended value has to be this many times more usual than the one found.
_MUST_GAIN: Final = 20
_PAGE: Final = 4096
_NUMPY: Final = {
    "bool": "u1", "uint8": "u1", "int8": "i1", "uint16": "<u2", "int16": "<i2", "uint32": "<u4",
    "int32": "<i4", "uint64": "<u8", "int64": "<i8", "float16": "<f2", "float32": "<f4",
    "float64": "<f8",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How usual two values are in a distribution.

    Attributes:
        found: Share of values at least as unusual as the one found, 1 / n at least.
        mended: The same for the one put right.
        reference: What they were held against.
    """

    found: float
    mended: float
    reference: str

    @property
    def stands_out(self) -> bool:
        """Whether the value found is unusual and the one put right is not."""
        return self.mended >= _MUST_GAIN * self.found and self.mended >= 0.01

    @property
    def speaks_against(self) -> bool:
        """Whether it is the other way round."""
        return self.found >= _MUST_GAIN * self.mended and self.found >= 0.01


def sample(source: ByteSource, tensor: FileTensor) -> Any:
    """Return up to a million of a tensor's elements as float64; None for a type without values.

    They are taken from its covering bytes in a few dozen runs, in storage order.

    Raises:
        PathError: The file cannot be read.
    """
    import numpy as np

    if not tensor.byte_ranges or tensor.unreadable or tensor.big_endian:
        return None
    start, end = tensor.byte_ranges[0]
    size = tensor.itemsize
    count = (end - start) // size
    if count <= _MAX_SAMPLED:
        raw = source.read(start, count * size)
    else:
        run = _MAX_SAMPLED // _CHUNKS
        step = (count - run) // (_CHUNKS - 1)
        raw = b"".join(
            source.read(start + index * step * size, run * size) for index in range(_CHUNKS)
        )
    if tensor.dtype in _NUMPY:
        with np.errstate(invalid="ignore"):  # a signalling NaN
            return np.frombuffer(raw, _NUMPY[tensor.dtype]).astype(np.float64)
    if tensor.dtype == "bfloat16":
        wide = np.frombuffer(raw, "<u2").astype(np.uint32) << 16
        with np.errstate(invalid="ignore"):
            return wide.view(np.float32).astype(np.float64)
    if tensor.dtype.startswith("float8"):
        table = np.array([float(_real(decode(tensor.dtype, bytes([b])))) for b in range(256)])
        return table[np.frombuffer(raw, np.uint8)]
    return None


def element_standing(
    source: ByteSource, tensor: FileTensor, offset: int, mask: int
) -> Standing | None:
    """Hold an element against its own tensor, as found and with bits of one byte flipped.

    Args:
        source: The file.
        tensor: The tensor that holds the byte.
        offset: The byte in the file.
        mask: The bits to flip in it.

    Returns:
        None where the tensor is too small or has no values.

    Raises:
        PathError: The file cannot be read.
    """
    values = sample(source, tensor)
    pair = values_at(source, tensor, offset, mask)
    if values is None or pair is None or len(values) < MIN_ELEMENTS:
        return None
    found, mended = pair
    return standing(values, found, mended, reference="its tensor", remove=found)


def values_at(
    source: ByteSource, tensor: FileTensor, offset: int, mask: int
) -> tuple[float, float] | None:
    """Return an element's value as found and as mended; None for complex and opaque types."""
    size = tensor.itemsize
    at = tensor.start + (offset - tensor.start) // size * size
    raw = bytearray(source.read(at, size).ljust(size, b"\0"))
    found = _decoded(tensor, bytes(raw))
    raw[offset - at] ^= mask
    mended = _decoded(tensor, bytes(raw))
    return None if found is None or mended is None else (found, mended)


def _decoded(tensor: FileTensor, raw: bytes) -> float | None:
    try:
        value = decode(tensor.dtype, canonical_element(tensor, raw))
    except KeyError:
        return None
    return None if isinstance(value, complex) else float(value)


def _real(value: float | complex) -> float:
    return value.real if isinstance(value, complex) else value


def standing(
    values: Any, found: float, mended: float, *, reference: str, remove: float | None = None
) -> Standing:
    """Return how usual two values are among others.

    A value is unusual by its magnitude, large or small, or by its sign where few are negative.

    Args:
        values: float64 array.
        found: The value that is there.
        mended: The value that would be put back.
        reference: What the values are, for people.
        remove: A value to be taken out of the others once.
    """
    import numpy as np

    magnitudes = np.abs(values)
    finite = np.isfinite(values)
    spread = np.sort(magnitudes[finite])
    total = max(len(values), 1)
    taken = 0 if remove is None else 1

    def share(value: float, *, itself: int) -> float:
        if not np.isfinite(value):
            count = int(total - finite.sum()) - itself
        else:
            size = abs(value)
            above = len(spread) - int(np.searchsorted(spread, size, "left"))
            below = int(np.searchsorted(spread, size, "right"))
            negative = int((values < 0).sum()) if value < 0 else total
            count = min(2 * min(above - itself, below - itself), negative - itself)
        return min(1.0, max(count, 1) / total)

    return Standing(
        found=share(found, itself=taken), mended=share(mended, itself=0), reference=reference
    )


def zero_pages(source: ByteSource, start: int, end: int, limit: int = 1 << 26) -> int:
    """Return how many aligned pages of a range hold zeros only, where few of its bytes are zero.

    Such pages were lost: evidence for other damage than one flipped bit.

    Args:
        source: The file.
        start: First byte.
        end: Last byte, excluded.
        limit: Bytes looked at.

    Raises:
        PathError: The file cannot be read.
    """
    import numpy as np

    zeros = pages = seen = 0
    first = -(-start // _PAGE) * _PAGE
    for chunk in source.chunks(first, min(end, first + limit), size=256 * _PAGE):
        array = np.frombuffer(chunk, np.uint8)
        whole = array[: len(array) // _PAGE * _PAGE].reshape(-1, _PAGE)
        empty = int((~whole.any(axis=1)).sum())
        pages += empty
        seen += len(array)
        zeros += len(array) - int(np.count_nonzero(array)) - empty * _PAGE
    rest = seen - pages * _PAGE
    return pages if rest and zeros < 0.2 * rest else 0

"""Exact reading of a span's elements as bit patterns, in bounded blocks; and patterns as values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from everybit.core.dtype import Number, decode
from everybit.files.element_places import element_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everybit.files.source import ByteSource
    from everybit.files.values.floats import FloatKind
    from everybit.files.values.spans import Span

_BLOCK_BYTES: Final = 1 << 20


def patterns_in(source: ByteSource, span: Span) -> Iterator[tuple[int, Any]]:
    """Yield `(offset in the file, bit patterns)` over a floating span, in order.

    Raises:
        PathError: The file cannot be read.
    """
    import numpy as np

    assert span.kind is not None
    size = span.kind.itemsize
    end = min(span.end, source.size)  # a header may promise more than there is
    for at in range(span.start, end, _BLOCK_BYTES):
        data = source.read(at, min(_BLOCK_BYTES, end - at))
        patterns = np.frombuffer(data[: len(data) // size * size], dtype=span.kind.unsigned)
        yield at, patterns.byteswap() if span.big_endian else patterns


def value_of(pattern: int, kind: FloatKind) -> Number:
    """Return the value that a bit pattern stands for."""
    return decode(kind.name, pattern.to_bytes(kind.itemsize, "little"))


def elements_of(span: Span, places: list[int]) -> list[int]:
    """Return the flat indices, in the span's first tensor, of elements at places in the file.

    Places outside of that tensor's own elements are left out.
    """
    tensor = span.tensor
    found = []
    for at in places:
        element = element_at(tensor, (at - tensor.start) // tensor.itemsize)
        if element is not None and 0 <= element < tensor.num_elements:
            found.append(element)
    return list(dict.fromkeys(found))

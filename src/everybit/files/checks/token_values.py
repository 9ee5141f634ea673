"""Token ids against the vocabulary that stands beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from everybit.core.finding import Location
from everybit.core.rule import rule
from everybit.files.damage import MalformedError
from everybit.files.formats.tokens import read_layout
from everybit.files.geometry import STORED_ITEMSIZE
from everybit.files.source import CHUNK_BYTES

if TYPE_CHECKING:
    from everybit.core.finding import Finding
    from everybit.files.source import ByteSource

_MAX_SHOWN: Final = 16
_KINDS: Final = {"uint16": "<u2", "uint32": "<u4"}


def check_token_values(source: ByteSource, name: str) -> list[Finding]:
    """Return the finding for ids at or beyond the vocabulary, which index past an embedding.

    Empty where nothing says how large the vocabulary is, or where the dtype is too narrow for it,
    which is told as damage of the structure.

    Raises:
        PathError: The file cannot be read.
    """
    import numpy as np

    try:
        layout = read_layout(source)
    except MalformedError:
        return []
    if layout is None or layout.vocab_size is None or layout.dtype not in _KINDS:
        return []
    size = STORED_ITEMSIZE[layout.dtype]
    if layout.vocab_size >= 1 << (8 * size):
        return []
    count = 0
    largest = 0
    shown: list[int] = []
    at = layout.start
    end = layout.start + (source.size - layout.start) // size * size
    for chunk in source.chunks(at, end, size=CHUNK_BYTES):
        ids = np.frombuffer(chunk[: len(chunk) // size * size], dtype=_KINDS[layout.dtype])
        if len(ids) and int(ids.max()) >= layout.vocab_size:
            wrong = np.flatnonzero(ids >= layout.vocab_size)
            count += len(wrong)
            largest = max(largest, int(ids.max()))
            first = (at - layout.start) // size
            shown += [first + int(place) for place in wrong[: _MAX_SHOWN - len(shown)]]
        at += len(chunk)
    if not count:
        return []
    begin = layout.start + shown[0] * size
    return [
        rule("FIL114").finding(
            f"{name} holds {count} token id{'s' if count > 1 else ''} from {layout.vocab_size} on, "
            f"the vocabulary that {layout.member_of} says; the largest is {largest}",
            where=Location(
                path=name,
                tensor="tokens",
                elements=tuple(shown),
                byte_range=(begin, begin + size),
            ),
            evidence={
                "listed_by": layout.member_of,
                "vocab_size": layout.vocab_size,
                "num_wrong": count,
                "largest": largest,
            },
        )
    ]
